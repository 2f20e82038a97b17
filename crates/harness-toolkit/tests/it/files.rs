use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use harness_types::{Action, CallId, DirEntry, EntryKind, Media, ResultContent, ToolCall};
use serde_json::{Value, json};

use crate::support::{Workshop, object};

fn opening(shop: &Workshop, tool: &str, args: Value) -> Action {
    let call = ToolCall {
        id: CallId::new("c"),
        name: tool.to_owned(),
        args: object(args),
    };
    shop.registry.get(tool).expect("a tool").opening(&call)
}

#[tokio::test]
async fn list_dir_shows_everything_in_order() {
    let shop = Workshop::new();
    shop.write("work/b.txt", "12345");
    shop.write("work/.hidden", "");
    shop.write("work/.gitignore", "b.txt\n");
    shop.write("work/a/inner", "x");
    symlink("b.txt", shop.path("work/link")).expect("a link");
    let args = json!({"DirectoryPath": shop.text("work/")});

    let path = shop.text("work");
    let entry = |name: &str, kind| DirEntry {
        name: name.to_owned(),
        kind,
    };
    assert_eq!(
        shop.action("list_dir", args.clone()).await,
        Action::ListDirectory {
            path: path.clone(),
            entries: vec![
                entry(".gitignore", EntryKind::File { bytes: 6 }),
                entry(".hidden", EntryKind::File { bytes: 0 }),
                entry("a", EntryKind::Directory),
                entry("b.txt", EntryKind::File { bytes: 5 }),
                entry("link", EntryKind::File { bytes: 5 }),
            ],
        }
    );
    assert_eq!(
        shop.ok("list_dir", args.clone()).await,
        r#"{"name":".gitignore","sizeBytes":6}
{"name":".hidden","sizeBytes":0}
{"name":"a","isDir":true}
{"name":"b.txt","sizeBytes":5}
{"name":"link","sizeBytes":5}

Summary: 1 directories and 4 files."#
    );
    assert_eq!(
        opening(&shop, "list_dir", args),
        Action::ListDirectory {
            path,
            entries: Vec::new()
        }
    );
}

#[tokio::test]
async fn list_dir_is_bounded_and_counts_the_rest() {
    let shop = Workshop::new();
    for number in 0..2010 {
        shop.write(&format!("work/f{number:04}"), "");
    }
    fs::create_dir(shop.path("work/z")).expect("a folder");
    let text = shop
        .ok("list_dir", json!({"DirectoryPath": shop.text("work")}))
        .await;
    assert_eq!(text.lines().count(), 2003);
    assert!(
        text.contains("{\"name\":\"f1999\",\"sizeBytes\":0}\n… 11 more"),
        "{text}"
    );
    assert!(
        text.ends_with(
            "… 11 more entries are not shown: 1 directories and 10 files.\n\n\
             Summary: 1 directories and 2010 files."
        ),
        "{text}"
    );
}

#[tokio::test]
async fn list_dir_says_what_is_wrong() {
    let shop = Workshop::new();
    let file = shop.write("work/file", "");
    let missing = shop.text("work/none");
    assert_eq!(
        shop.error("list_dir", json!({"DirectoryPath": file})).await,
        format!("`{file}` is not a directory; view_file shows files")
    );
    assert_eq!(
        shop.error("list_dir", json!({"DirectoryPath": missing}))
            .await,
        format!("cannot read `{missing}`: it does not exist")
    );
    assert_eq!(
        shop.error("list_dir", json!({"DirectoryPath": "work"}))
            .await,
        "DirectoryPath: \"work\" is not an absolute path; give one that begins with `/`"
    );
    fs::create_dir(shop.path("work/empty")).expect("a folder");
    assert_eq!(
        shop.ok(
            "list_dir",
            json!({"DirectoryPath": shop.text("work/empty")})
        )
        .await,
        "The directory is empty.\n\nSummary: 0 directories and 0 files."
    );
}

#[tokio::test]
async fn view_file_counts_lines_as_people_do() {
    let shop = Workshop::new();
    let path = shop.write("work/a b.txt", "one\ntwo\n");
    let uri = format!("file://{}", path.replace(' ', "%20"));
    assert_eq!(
        shop.ok("view_file", json!({"AbsolutePath": uri})).await,
        format!(
            "File Path: `{path}`\nTotal Lines: 2\nTotal Bytes: 8\nShowing lines 1 to 2\n\
             1: one\n2: two\nThis is the whole file.\n"
        )
    );
    let empty = shop.write("work/empty", "");
    assert_eq!(
        shop.ok("view_file", json!({"AbsolutePath": empty})).await,
        format!("File Path: `{empty}`\nThe file is empty.\n")
    );
}

fn view_action(path: &str, start_line: u32, end_line: u32, content_offset: u32) -> Action {
    Action::ViewFile {
        path: path.to_owned(),
        start_line,
        end_line,
        content_offset,
    }
}

#[tokio::test]
async fn f036_the_header_says_exactly_what_is_shown() {
    let shop = Workshop::new();
    let text: String = (1..=1500).map(|n| format!("line {n}\n")).collect();
    let path = shop.write("work/long", &text);

    let first = shop.ok("view_file", json!({"AbsolutePath": path})).await;
    assert!(first.contains("Total Lines: 1500\n"));
    assert!(first.contains("\nShowing lines 1 to 800\n1: line 1\n"));
    assert!(first.ends_with(
        "\n800: line 800\n700 more lines follow. To see them, call again with StartLine=801.\n"
    ));
    let args = json!({"AbsolutePath": path, "StartLine": 801});
    let rest = shop.ok("view_file", args.clone()).await;
    assert!(rest.contains("\nShowing lines 801 to 1500\n801: line 801\n"));
    assert!(rest.ends_with("\n1500: line 1500\nThis is the end of the file.\n"));

    // The views of observers agree, counted from 0.
    assert_eq!(
        opening(&shop, "view_file", args.clone()),
        view_action(&path, 800, 1599, 0)
    );
    assert_eq!(
        shop.action("view_file", args).await,
        view_action(&path, 800, 1499, 0)
    );

    let some = json!({"AbsolutePath": path, "StartLine": "3", "EndLine": 4.0});
    assert_eq!(
        shop.ok("view_file", some).await,
        format!(
            "File Path: `{path}`\nTotal Lines: 1500\nTotal Bytes: {}\nShowing lines 3 to 4\n\
             3: line 3\n4: line 4\n\
             1496 more lines follow. To see them, call again with StartLine=5.\n",
            text.len()
        )
    );
}

#[tokio::test]
async fn f036_bytes_are_cut_on_line_borders() {
    let shop = Workshop::new();
    let text: String = (1..=600)
        .map(|n| format!("{n:04}{}\n", "x".repeat(95)))
        .collect();
    let path = shop.write("work/wide", &text);
    let first = shop.ok("view_file", json!({"AbsolutePath": path})).await;
    // 460 lines of 100 bytes are 46,000 bytes.
    assert!(first.contains("\nShowing lines 1 to 460\n"));
    assert!(
        first.ends_with("x\nCut at 46080 bytes. To see more, call again with StartLine=461.\n")
    );
    assert_eq!(
        shop.action("view_file", json!({"AbsolutePath": path}))
            .await,
        view_action(&path, 0, 459, 0)
    );
}

#[tokio::test]
async fn f046_a_long_line_is_shown_in_parts() {
    let shop = Workshop::new();
    let line = "é€😀".repeat(20_000);
    let path = shop.write("work/min.js", format!("a\n{line}\nb\n"));
    let mut seen = String::new();
    let mut args = json!({"AbsolutePath": path, "StartLine": 2, "EndLine": 2});
    for part in 0.. {
        assert!(part < 5, "too many parts");
        let text = shop.ok("view_file", args.clone()).await;
        assert!(text.len() < 47_000, "{}", text.len());
        let (_, shown) = text.split_once("\n2: ").expect("a line");
        let (shown, hint) = shown.split_once('\n').expect("a hint");
        seen.push_str(shown);
        let Some((_, offset)) = hint.split_once("ContentOffset=") else {
            assert_eq!(
                hint,
                "1 more lines follow. To see them, call again with StartLine=3.\n"
            );
            break;
        };
        assert!(hint.contains("StartLine=2, EndLine=2 and"), "{hint}");
        let offset: usize = offset.trim_end_matches(".\n").parse().expect("a number");
        assert_eq!(offset, seen.len());
        args["ContentOffset"] = offset.into();
    }
    assert_eq!(seen, line);
    let beyond = json!({"AbsolutePath": path, "StartLine": 2, "EndLine": 2, "ContentOffset": 9e6});
    assert_eq!(
        shop.error("view_file", beyond).await,
        format!(
            "ContentOffset 9000000 is beyond the end: the lines asked for have {} bytes",
            line.len() + 1
        )
    );
}

#[tokio::test]
async fn view_file_refuses_ranges_that_are_not_there() {
    let shop = Workshop::new();
    let path = shop.write("work/f", "a\nb\n");
    let range =
        |start: i64, end: i64| json!({"AbsolutePath": path, "StartLine": start, "EndLine": end});
    assert_eq!(
        shop.error("view_file", range(3, 9)).await,
        format!("StartLine 3 is beyond the end: `{path}` has 2 lines")
    );
    assert_eq!(
        shop.error("view_file", range(2, 1)).await,
        "EndLine 1 is before StartLine 2"
    );
    // What models send for "all of it".
    assert!(
        shop.ok("view_file", range(0, 0))
            .await
            .ends_with("\nThis is the whole file.\n")
    );
    assert!(
        shop.ok("view_file", range(0, -1))
            .await
            .ends_with("\nThis is the whole file.\n")
    );
    assert!(
        shop.ok("view_file", range(2, 99))
            .await
            .contains("Showing lines 2 to 2\n2: b\n")
    );
}

#[tokio::test]
async fn view_file_reads_text_in_other_encodings() {
    let shop = Workshop::new();
    let utf16: Vec<u8> = "\u{feff}äö\r\nü\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let cases = [
        (
            utf16,
            "Encoding: UTF-16, shown as UTF-8\nLine ends: CRLF\n1: äö\n2: ü\n",
        ),
        (
            b"\xef\xbb\xbfconst v=1;\n".to_vec(),
            "Encoding: UTF-8 with a byte order mark\n1: const v=1;\n",
        ),
        (
            b"caf\xe9\n".to_vec(),
            "Encoding: not UTF-8; 1 bytes are shown as Latin-1 characters\n1: café\n",
        ),
        (
            b"a\r\nb\nc\rd\n".to_vec(),
            "Line ends: LF, but CRLF on 1 lines\n1: a\n2: b\n3: c\rd\n",
        ),
        (b"a\r\nb".to_vec(), "Line ends: CRLF\n1: a\n2: b\n"),
    ];
    for (bytes, shown) in cases {
        let path = shop.write("work/f", bytes);
        let text = shop.ok("view_file", json!({"AbsolutePath": path})).await;
        assert!(
            text.ends_with(&format!("{shown}This is the whole file.\n")),
            "{text}"
        );
    }
}

#[tokio::test]
async fn view_file_attaches_media_and_describes_other_data() {
    let shop = Workshop::new();
    let bytes = [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 20_000]].concat();
    // The content counts, not the name.
    let path = shop.write("work/picture.txt", &bytes);
    let output = shop
        .call("view_file", json!({"AbsolutePath": path}))
        .await
        .expect("success");
    assert_eq!(
        output.media,
        [Media {
            mime_type: "image/png".to_owned(),
            description: String::new(),
            data: bytes.into(),
        }]
    );
    assert_eq!(
        output.content,
        ResultContent::Text(format!(
            "File Path: `{path}`\nType: image/png\nTotal Bytes: 20008\n\
             The whole file is attached.\n"
        ))
    );

    let path = shop.write("work/prog", b"\x7fELF\x02\x01\0\0");
    assert_eq!(
        shop.ok("view_file", json!({"AbsolutePath": path})).await,
        format!(
            "File Path: `{path}`\nTotal Bytes: 8\nThis is binary data (an ELF program or \
             library), its content is not shown. It begins with the bytes 7f 45 4c 46 02 01 00 \
             00.\n"
        )
    );

    let path = shop.write("work/big.pdf", "%PDF-1.7\n");
    let file = fs::File::options().write(true).open(&path).expect("a file");
    file.set_len(20 * 1024 * 1024 + 1).expect("a large file");
    assert_eq!(
        shop.error("view_file", json!({"AbsolutePath": path})).await,
        format!(
            "`{path}` (application/pdf) is too large to attach: 20971521 bytes, the most is \
             20971520"
        )
    );
}

#[tokio::test]
async fn view_file_does_not_wait_for_what_is_no_file() {
    let shop = Workshop::new();
    let pipe = shop.path("work/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    for (path, message) in [
        (shop.text("work/pipe"), "is a pipe, not a file"),
        (
            shop.text("work"),
            "is a directory; list_dir shows what is in it",
        ),
        ("/dev/zero".to_owned(), "is a device, not a file"),
    ] {
        let error = shop.error("view_file", json!({"AbsolutePath": path})).await;
        assert_eq!(error, format!("`{path}` {message}"));
    }
    let missing = shop.text("work/none");
    assert_eq!(
        shop.error("view_file", json!({"AbsolutePath": missing}))
            .await,
        format!("cannot read `{missing}`: it does not exist")
    );
}

#[tokio::test]
async fn f034_strange_names_are_only_names() {
    let shop = Workshop::new();
    for name in [
        "app/[locale]/(auth)/page.tsx",
        "-dash",
        "it's \"q\"",
        "new\nline",
        "{a,b}*?",
    ] {
        let path = shop.write(&format!("work/{name}"), "text\n");
        let text = shop.ok("view_file", json!({"AbsolutePath": path})).await;
        assert!(text.contains("\n1: text\n"), "{name}: {text}");
    }
    let bytes = std::ffi::OsStr::from_bytes(b"bad-\xff-name");
    fs::write(shop.path("work").join(bytes), "x").expect("a file");
    let text = shop
        .ok("list_dir", json!({"DirectoryPath": shop.text("work")}))
        .await;
    assert!(
        text.contains("{\"name\":\"bad-\u{fffd}-name\",\"sizeBytes\":1}"),
        "{text}"
    );
    assert!(
        text.contains("{\"name\":\"new\\nline\",\"sizeBytes\":5}"),
        "{text}"
    );
    let uri = format!("file://{}/bad-%FF-name", shop.text("work"));
    assert!(
        shop.ok("view_file", json!({"AbsolutePath": uri}))
            .await
            .contains("\n1: x\n")
    );
}

#[tokio::test]
async fn f020_contained_reading_stays_inside() {
    let shop = Workshop::contained();
    let secret = shop.write("secret", "s");
    shop.write("work/in/file", "inside\n");
    symlink(&secret, shop.path("work/link")).expect("a link");
    symlink("in", shop.path("work/good")).expect("a link");
    symlink("..", shop.path("work/up")).expect("a link");
    for path in ["secret", "work/link", "work/up/secret", "work/../secret"] {
        let path = shop.text(path);
        let error = shop.error("view_file", json!({"AbsolutePath": path})).await;
        assert!(
            error.contains("is outside the allowed directories"),
            "{error}"
        );
    }
    let error = shop
        .error("list_dir", json!({"DirectoryPath": shop.text("work/up")}))
        .await;
    assert!(
        error.contains("is outside the allowed directories"),
        "{error}"
    );

    let inside = shop.text("work/good/file");
    let text = shop.ok("view_file", json!({"AbsolutePath": inside})).await;
    assert!(text.contains("\n1: inside\n"), "{text}");
    let text = shop
        .ok("list_dir", json!({"DirectoryPath": shop.text("work/good")}))
        .await;
    assert!(
        text.starts_with("{\"name\":\"file\",\"sizeBytes\":7}\n"),
        "{text}"
    );

    let tool = shop.registry.get("view_file").expect("a tool");
    let args = object(json!({"AbsolutePath": inside}));
    assert_eq!(tool.paths(&args), [shop.path("work/good/file")]);
    assert!(
        tool.paths(&object(json!({"AbsolutePath": "relative"})))
            .is_empty()
    );
}
