use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use harness_types::{Action, DiffBlock, DiffLine, LineChange, ToolError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::Workshop;

/// Calls `replace_file_content` with a target and its replacement, and more arguments.
async fn replace(
    shop: &Workshop,
    path: &str,
    (target, replacement): (&str, &str),
    more: Value,
) -> Result<String, String> {
    let mut args = more;
    args["TargetFile"] = shop.text(path).into();
    args["TargetContent"] = target.into();
    args["ReplacementContent"] = replacement.into();
    match shop.call("replace_file_content", args).await {
        Ok(output) => match output.content {
            harness_types::ResultContent::Text(text) => Ok(text),
            other => panic!("not a text: {other:?}"),
        },
        Err(error) => Err(error.to_string()),
    }
}

fn left_over(shop: &Workshop, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(shop.path(folder)).expect("a folder");
    let names = entries.map(|it| {
        it.expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    names.filter(|name| name.ends_with(".tmp")).collect()
}

fn line(change: LineChange, text: &str) -> DiffLine {
    DiffLine {
        change,
        text: text.to_owned(),
    }
}

#[tokio::test]
async fn write_makes_a_file_exactly_as_given() {
    let shop = Workshop::new();
    let path = shop.text("work/new/deep/file.txt");
    let args = json!({"TargetFile": path, "CodeContent": "abc\ndef", "Overwrite": false});
    let output = shop.call("write_to_file", args).await.expect("success");
    assert_eq!(
        output,
        harness_types::ToolOutput::text(format!("Created `{path}`; it now has 7 bytes."))
            .with_action(Action::EditFile {
                path: path.clone(),
                diff: vec![DiffBlock {
                    start_line: 0,
                    end_line: 0,
                    lines: vec![
                        line(LineChange::Insert, "abc"),
                        line(LineChange::Insert, "def")
                    ],
                }],
            })
    );
    assert_eq!(shop.read("work/new/deep/file.txt"), b"abc\ndef");

    let empty = json!({"TargetFile": shop.text("work/empty"), "CodeContent": ""});
    shop.ok("write_to_file", empty).await;
    assert_eq!(shop.read("work/empty"), b"");
    assert_eq!(left_over(&shop, "work/new/deep"), [""; 0]);
}

#[tokio::test]
async fn f048_an_existing_file_needs_a_flag() {
    let shop = Workshop::new();
    let path = shop.write("work/f", "one\r\ntwo");
    let write = |more: Value| {
        let mut args = more;
        args["TargetFile"] = path.clone().into();
        args["CodeContent"] = "new".into();
        args
    };
    assert_eq!(
        shop.error("write_to_file", write(json!({}))).await,
        format!(
            "`{path}` already exists and was not changed; set Overwrite to replace its whole \
             content, or use replace_file_content to change part of it"
        )
    );
    assert_eq!(
        shop.error(
            "write_to_file",
            write(json!({"Overwrite": true, "Append": true}))
        )
        .await,
        "give Overwrite or Append, not both"
    );
    assert_eq!(shop.read("work/f"), b"one\r\ntwo");

    assert_eq!(
        shop.ok("write_to_file", write(json!({"Append": true})))
            .await,
        format!("Appended to `{path}`; it now has 11 bytes.")
    );
    assert_eq!(shop.read("work/f"), b"one\r\ntwonew");
    assert_eq!(
        shop.ok("write_to_file", write(json!({"Overwrite": true})))
            .await,
        format!("Overwrote `{path}`; it now has 3 bytes.")
    );
    assert_eq!(shop.read("work/f"), b"new");
    let fresh = json!({"TargetFile": shop.text("work/g"), "CodeContent": "x", "Append": true});
    shop.ok("write_to_file", fresh).await;
    assert_eq!(shop.read("work/g"), b"x");
}

#[tokio::test]
async fn writing_keeps_mode_and_links() {
    let shop = Workshop::new();
    let path = shop.write("work/real.sh", "old\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("permissions");
    symlink("real.sh", shop.path("work/link")).expect("a link");
    symlink("fresh", shop.path("work/dangling")).expect("a link");

    let write = |path: &str| {
        json!({
            "TargetFile": shop.text(path), "CodeContent": "new\n", "Overwrite": true,
        })
    };
    shop.ok("write_to_file", write("work/link")).await;
    assert_eq!(shop.read("work/real.sh"), b"new\n");
    let metadata = fs::metadata(&path).expect("a file");
    assert_eq!(metadata.mode() & 0o7777, 0o750);
    assert!(shop.path("work/link").is_symlink());
    shop.ok("write_to_file", write("work/dangling")).await;
    assert_eq!(shop.read("work/fresh"), b"new\n");

    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("permissions");
    let error = shop.error("write_to_file", write("work/real.sh")).await;
    assert_eq!(error, format!("`{path}` is read-only"));
    let error = shop.error("write_to_file", write("work")).await;
    assert_eq!(error, format!("`{}` is a directory", shop.text("work")));
    let below = shop.text("work/real.sh/x");
    let error = shop.error("write_to_file", write("work/real.sh/x")).await;
    assert!(
        error.starts_with(&format!("cannot open `{below}`: ")),
        "{error}"
    );
}

#[tokio::test]
async fn f021_contained_writing_does_not_follow_links_out() {
    let shop = Workshop::contained();
    shop.write("victim", "precious\n");
    shop.write("work/sub/in.txt", "a\n");
    symlink("../victim", shop.path("work/notes.md")).expect("a link");
    symlink("../not-yet", shop.path("work/new.txt")).expect("a link");
    symlink("..", shop.path("work/up")).expect("a link");
    symlink("sub/in.txt", shop.path("work/good")).expect("a link");
    symlink("sub", shop.path("work/folder")).expect("a link");

    for path in [
        "work/notes.md",
        "work/new.txt",
        "work/up/made",
        "victim",
        "work/up/x/y",
    ] {
        let args = json!({"TargetFile": shop.text(path), "CodeContent": "x", "Overwrite": true});
        let error = shop.error("write_to_file", args).await;
        assert!(
            error.contains("is outside the allowed directories"),
            "{error}"
        );
        let error = replace(&shop, path, ("precious", "x"), json!({}))
            .await
            .expect_err("outside");
        assert!(
            error.contains("is outside the allowed directories"),
            "{error}"
        );
    }
    assert_eq!(shop.read("victim"), b"precious\n");
    for path in ["not-yet", "made", "x"] {
        assert!(!shop.path(path).exists(), "{path}");
    }
    replace(&shop, "work/good", ("a", "b"), json!({}))
        .await
        .expect("inside");
    assert_eq!(shop.read("work/sub/in.txt"), b"b\n");
    assert!(shop.path("work/good").is_symlink());
    let args = json!({"TargetFile": shop.text("work/folder/new/f"), "CodeContent": "x"});
    shop.ok("write_to_file", args).await;
    assert_eq!(shop.read("work/sub/new/f"), b"x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f060_a_folder_swapped_for_a_link_leads_nowhere() {
    let shop = Workshop::contained();
    fs::create_dir(shop.path("outside")).expect("a folder");
    fs::create_dir(shop.path("work/folder")).expect("a folder");
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, folder) = (stop.clone(), shop.path("work/folder"));
        let (aside, outside) = (shop.path("work/aside"), shop.path("outside"));
        std::thread::spawn(move || {
            let mut swaps = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::rename(&folder, &aside);
                let _ = symlink(&outside, &folder);
                let _ = fs::remove_file(&folder);
                let _ = fs::rename(&aside, &folder);
                swaps += 1;
            }
            swaps
        })
    };
    let mut written = 0;
    for number in 0..300 {
        let path = shop.text(&format!("work/folder/sub/f{number}"));
        let args = json!({"TargetFile": path, "CodeContent": "x"});
        match shop.call("write_to_file", args).await {
            Ok(_) => written += 1,
            Err(ToolError::Failed { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        let _ = shop.call("view_file", json!({"AbsolutePath": path})).await;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapper.join().expect("the swapper") > 0);
    let escaped: Vec<_> = fs::read_dir(shop.path("outside"))
        .expect("a folder")
        .collect();
    assert!(escaped.is_empty(), "{escaped:?} ({written} written)");
}

#[tokio::test]
async fn replace_shows_hunks() {
    let shop = Workshop::new();
    let text: String = (1..=9).map(|n| format!("line {n}\n")).collect();
    let path = shop.write("work/f", &text);
    let args = json!({
        "TargetFile": path, "TargetContent": "line 5\n", "ReplacementContent": "five\nfünf\n",
    });
    let output = shop
        .call("replace_file_content", args)
        .await
        .expect("success");
    let keep = |n: u32| line(LineChange::Keep, &format!("line {n}"));
    assert_eq!(
        output,
        harness_types::ToolOutput::text(format!(
            "Changed `{path}` at 1 exact match:\n@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n\
             -line 5\n+five\n+fünf\n line 6\n line 7\n line 8\n"
        ))
        .with_action(Action::EditFile {
            path,
            diff: vec![DiffBlock {
                start_line: 1,
                end_line: 8,
                lines: vec![
                    keep(2),
                    keep(3),
                    keep(4),
                    line(LineChange::Delete, "line 5"),
                    line(LineChange::Insert, "five"),
                    line(LineChange::Insert, "fünf"),
                    keep(6),
                    keep(7),
                    keep(8),
                ],
            }],
        })
    );
}

#[tokio::test]
async fn f010_crlf_files_stay_crlf() {
    let shop = Workshop::new();
    shop.write("work/f", "a\r\nb\r\nc\r\n");
    replace(&shop, "work/f", ("b\nc", "B\nc"), json!({}))
        .await
        .expect("a match");
    assert_eq!(shop.read("work/f"), b"a\r\nB\r\nc\r\n");
    replace(&shop, "work/f", ("B", "B\nx"), json!({}))
        .await
        .expect("a match");
    assert_eq!(shop.read("work/f"), b"a\r\nB\r\nx\r\nc\r\n");
}

#[tokio::test]
async fn f035_a_byte_order_mark_is_no_obstacle_and_stays() {
    let shop = Workshop::new();
    shop.write("work/f", "\u{feff}const v=1;\n");
    replace(&shop, "work/f", ("const v=1;", "const v=2;"), json!({}))
        .await
        .expect("a match");
    assert_eq!(shop.read("work/f"), "\u{feff}const v=2;\n".as_bytes());
    replace(&shop, "work/f", ("\u{feff}const", "\u{feff}let"), json!({}))
        .await
        .expect("a match");
    assert_eq!(shop.read("work/f"), "\u{feff}let v=2;\n".as_bytes());
}

#[tokio::test]
async fn f047_an_empty_target_is_refused() {
    let shop = Workshop::new();
    shop.write("work/f", "text\n");
    shop.write("work/empty", "");
    for path in ["work/f", "work/empty", "work/none"] {
        let error = replace(&shop, path, ("", "x"), json!({}))
            .await
            .expect_err("empty");
        assert!(
            error.starts_with("TargetContent is empty; give the text"),
            "{error}"
        );
    }
    let error = replace(&shop, "work/f", ("text\r\n", "text\n"), json!({}))
        .await
        .expect_err("same");
    assert!(
        error.starts_with("TargetContent and ReplacementContent are the same"),
        "{error}"
    );
    assert_eq!(shop.read("work/f"), b"text\n");
    assert!(!shop.path("work/none").exists());
}

#[tokio::test]
async fn f048_a_target_that_is_not_unique_lists_its_lines() {
    let shop = Workshop::new();
    let path = shop.write("work/f", "x\nfoo\ny\nfoo\nfoo\n");
    let tried = async |more: Value| replace(&shop, "work/f", ("foo", "bar"), more).await;
    assert_eq!(
        tried(json!({})).await,
        Err(format!(
            "`{path}` was not changed: TargetContent is not unique between lines 1 and 5: it \
             occurs 3 times, at lines 2, 4, 5; give more of its surroundings, narrow StartLine \
             and EndLine, or set AllowMultiple"
        ))
    );
    assert_eq!(
        tried(json!({"StartLine": 3, "EndLine": 3})).await,
        Err(format!(
            "`{path}` was not changed: TargetContent does not occur between lines 3 and 3, but \
             occurs 3 times, at lines 2, 4, 5; correct the lines or give more of its surroundings"
        ))
    );
    assert_eq!(shop.read("work/f"), b"x\nfoo\ny\nfoo\nfoo\n");

    tried(json!({"StartLine": 4, "EndLine": 4}))
        .await
        .expect("unique in the range");
    assert_eq!(shop.read("work/f"), b"x\nfoo\ny\nbar\nfoo\n");
    let text = tried(json!({"AllowMultiple": true, "StartLine": 1, "EndLine": 99})).await;
    assert!(
        text.expect("all")
            .starts_with(&format!("Changed `{path}` at 2 exact matches:\n"))
    );
    assert_eq!(shop.read("work/f"), b"x\nbar\ny\nbar\nbar\n");

    // Overlapping places are not unique either, and are replaced from the left.
    shop.write("work/g", "aaa\n");
    let error = replace(&shop, "work/g", ("aa", "b"), json!({}))
        .await
        .expect_err("two places");
    assert!(error.contains("occurs 2 times, at lines 1, 1"), "{error}");
    replace(&shop, "work/g", ("aa", "b"), json!({"AllowMultiple": true}))
        .await
        .expect("one");
    assert_eq!(shop.read("work/g"), b"ba\n");
}

#[tokio::test]
async fn a_unique_target_outside_the_range_is_replaced_all_the_same() {
    let shop = Workshop::new();
    shop.write("work/f", "a\nb\nc\n");
    replace(
        &shop,
        "work/f",
        ("c", "C"),
        json!({"StartLine": 1, "EndLine": 1}),
    )
    .await
    .expect("c");
    replace(
        &shop,
        "work/f",
        ("a", "A"),
        json!({"StartLine": 0, "EndLine": 0}),
    )
    .await
    .expect("a");
    replace(
        &shop,
        "work/f",
        ("b", "B"),
        json!({"StartLine": 70, "EndLine": 90}),
    )
    .await
    .expect("b");
    assert_eq!(shop.read("work/f"), b"A\nB\nC\n");
}

#[tokio::test]
async fn f011_and_f086_nothing_is_guessed_but_the_nearest_lines_are_shown() {
    let shop = Workshop::new();
    let text = "<ul>\n  <li>one</li>\n  <li>two</li>\n  <li>three</li>\n</ul>\n";
    let path = shop.write("work/f.jsx", text);
    let target = "  <li>one</li>\n  <li>2</li>\n  <li>three</li>\n";
    let range = json!({"StartLine": 4, "EndLine": 6});
    assert_eq!(
        replace(&shop, "work/f.jsx", (target, "  <li/>\n"), range).await,
        Err(format!(
            "`{path}` was not changed: TargetContent does not occur in it. It has to match \
             exactly, indentation included; only CRLF and LF count as equal.\n\
             Lines 2 to 4 have 2 of its 3 lines:\n2:   <li>one</li>\n3:   <li>two</li>\n\
             4:   <li>three</li>"
        ))
    );
    let tabs = "\t<li>one</li>\n\t<li>two</li>";
    let error = replace(&shop, "work/f.jsx", (tabs, "x"), json!({}))
        .await
        .expect_err("tabs");
    assert!(
        error.contains("\nLines 2 to 3 differ only in spaces or tabs:\n"),
        "{error}"
    );
    let error = replace(&shop, "work/f.jsx", ("qqqq", "x"), json!({}))
        .await
        .expect_err("nothing");
    assert!(
        error.ends_with("No line is like it; view_file shows the file."),
        "{error}"
    );
    assert_eq!(shop.read("work/f.jsx"), text.as_bytes());
}

#[tokio::test]
async fn what_is_not_text_is_not_edited() {
    let shop = Workshop::new();
    shop.write("work/bin", b"a\0b");
    shop.write("work/utf16", b"\xff\xfea\0");
    shop.write("work/latin1", b"caf\xe9 old\n");
    for (path, what) in [
        ("work/bin", "is binary data"),
        ("work/utf16", "is UTF-16 text"),
    ] {
        let error = replace(&shop, path, ("a", "b"), json!({}))
            .await
            .expect_err("no text");
        assert!(error.contains(what), "{error}");
    }
    let error = replace(&shop, "work/latin1", ("old", "né"), json!({}))
        .await
        .expect_err("é");
    assert!(
        error.contains("is not UTF-8 and ReplacementContent is not ASCII"),
        "{error}"
    );
    replace(&shop, "work/latin1", ("old", "new"), json!({}))
        .await
        .expect("ASCII");
    assert_eq!(shop.read("work/latin1"), b"caf\xe9 new\n");
    let error = replace(&shop, "work/none", ("a", "b"), json!({}))
        .await
        .expect_err("missing");
    assert!(
        error.ends_with("does not exist; write_to_file makes files"),
        "{error}"
    );
}

#[tokio::test]
async fn only_three_arguments_are_needed() {
    let shop = Workshop::new();
    let path = shop.write("work/f", "a\n");
    let args = json!({
        "TargetFile": path, "TargetContent": "a", "ReplacementContent": "b",
        "TargetLintErrorIds": [], "toolSummary": "x", "StartLine": null,
    });
    shop.ok("replace_file_content", args).await;
    assert_eq!(shop.read("work/f"), b"b\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn an_edit_keeps_every_byte_outside_its_target(
        before in prop::collection::vec(any::<u8>().prop_filter("text", |b| *b != 0), 0..40),
        after in prop::collection::vec(any::<u8>().prop_filter("text", |b| *b != 0), 0..40),
        replacement in "[a-z\n]{0,12}",
    ) {
        let before = [b"#".as_slice(), &before].concat();
        let shop = Workshop::new();
        let content = [&before[..], b"<<target>>", &after].concat();
        prop_assume!(content.windows(10).filter(|it| it == b"<<target>>").count() == 1);
        shop.write("work/f", &content);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let new = format!("<<{replacement}>>");
        runtime
            .block_on(replace(&shop, "work/f", ("<<target>>", &new), json!({})))
            .expect("an edit");
        let written = shop.read("work/f");
        prop_assert!(written.starts_with(&[&before[..], b"<<"].concat()));
        prop_assert!(written.ends_with(&[b">>".as_slice(), &after].concat()));
        let inner = &written[before.len() + 2..written.len() - after.len() - 2];
        let inner = String::from_utf8(inner.to_vec()).expect("what was given");
        prop_assert_eq!(inner.replace("\r\n", "\n"), replacement);
    }
}
