use std::os::unix::fs::symlink;

use harness_types::{Action, ResultContent};
use serde_json::{Value, json};

use crate::support::Workshop;

async fn grep(shop: &Workshop, mut args: Value) -> Value {
    if args.get("SearchPath").is_none() {
        args["SearchPath"] = shop.text("work").into();
    }
    match shop
        .call("grep_search", args)
        .await
        .expect("success")
        .content
    {
        ResultContent::Json(object) => Value::Object(object),
        ResultContent::Text(text) => text.into(),
        other => panic!("unexpected content: {other:?}"),
    }
}

/// The paths of the results, below the workspace.
async fn files(shop: &Workshop, args: Value) -> Vec<String> {
    let root = format!("{}/", shop.text("work"));
    let found = grep(shop, args).await;
    let results = found["results"].as_array().cloned().unwrap_or_default();
    results
        .iter()
        .map(|hit| hit["path"].as_str().expect("a path").replacen(&root, "", 1))
        .collect()
}

#[tokio::test]
async fn grep_finds_lines_in_order() {
    let shop = Workshop::new();
    shop.write("work/b.rs", "fn main() {}\r\nlet needle = 1;\r\n");
    shop.write("work/a/x.rs", "needle\nno\nNEEDLE needle\n");
    shop.write("work/.hidden", "a needle\n");
    let args = json!({"Query": "needle", "MatchPerLine": true, "SearchPath": shop.text("work")});
    let hit = |path: &str, line_number: u64, line_content: &str| {
        json!({
            "path": shop.text(path),
            "line_number": line_number,
            "line_content": line_content,
        })
    };
    assert_eq!(
        grep(&shop, args.clone()).await,
        json!({
            "results": [
                hit("work/.hidden", 1, "a needle"),
                hit("work/a/x.rs", 1, "needle"),
                hit("work/a/x.rs", 3, "NEEDLE needle"),
                hit("work/b.rs", 2, "let needle = 1;"),
            ],
            "num_elided_results": 0,
            "total": 4,
        })
    );
    assert_eq!(
        shop.action("grep_search", args).await,
        Action::SearchDirectory {
            path: shop.text("work"),
            query: "needle".to_owned(),
            results: Some(4),
        }
    );
    assert_eq!(
        grep(&shop, json!({"Query": "needle"})).await,
        json!({
            "results": [
                {"path": shop.text("work/.hidden")},
                {"path": shop.text("work/a/x.rs")},
                {"path": shop.text("work/b.rs")},
            ],
            "num_elided_results": 0,
            "total": 3,
        })
    );
    let one =
        json!({"Query": "needle", "SearchPath": shop.text("work/b.rs"), "MatchPerLine": true});
    assert_eq!(
        grep(&shop, one).await["results"],
        json!([hit("work/b.rs", 2, "let needle = 1;")])
    );
}

#[tokio::test]
async fn grep_queries_are_literal_unless_they_are_regular_expressions() {
    let shop = Workshop::new();
    shop.write("work/a", "a.c\nabc\nABC\nend\r\nfirst\nsecond\n");
    let lines = async |args: Value| -> Vec<u64> {
        let mut args = args;
        args["MatchPerLine"] = true.into();
        let found = grep(&shop, args).await;
        let results = found["results"].as_array().cloned().unwrap_or_default();
        results
            .iter()
            .map(|hit| hit["line_number"].as_u64().expect("a number"))
            .collect()
    };
    assert_eq!(lines(json!({"Query": "a.c"})).await, [1]);
    assert_eq!(
        lines(json!({"Query": "a.c", "IsRegex": true})).await,
        [1, 2]
    );
    assert_eq!(
        lines(json!({"Query": "a.c", "IsRegex": true, "CaseInsensitive": true})).await,
        [1, 2, 3]
    );
    assert_eq!(
        lines(json!({"Query": "abc", "CaseInsensitive": "true"})).await,
        [2, 3]
    );
    assert_eq!(lines(json!({"Query": "^end$", "IsRegex": true})).await, [4]);
    assert_eq!(lines(json!({"Query": "first\nsecond"})).await, [5]);
    assert_eq!(
        lines(json!({"Query": "first\\nsec", "IsRegex": true})).await,
        [5]
    );
    assert_eq!(lines(json!({"Query": "("})).await, [0; 0]);

    assert_eq!(
        grep(&shop, json!({"Query": "absent"})).await,
        json!("No results found")
    );
    let root = shop.text("work");
    let error = shop
        .error(
            "grep_search",
            json!({"Query": "(", "IsRegex": true, "SearchPath": root}),
        )
        .await;
    assert!(
        error.starts_with("Query is not a usable regular expression: "),
        "{error}"
    );
    let error = shop
        .error("grep_search", json!({"Query": "", "SearchPath": root}))
        .await;
    assert_eq!(error, "Query is empty; give text to search for");
    let missing = shop.text("work/none");
    let error = shop
        .error("grep_search", json!({"Query": "x", "SearchPath": missing}))
        .await;
    assert_eq!(error, format!("cannot read `{missing}`: it does not exist"));
}

#[tokio::test]
async fn f033_ignored_files_are_left_out_unless_named() {
    let shop = Workshop::new();
    for path in [
        "a.rs",
        "target/out.rs",
        "logs/x.log",
        "logs/keep.log",
        "sub/gen.rs",
        "sub/src.rs",
        ".git/config",
        "deep/sub/cache/c.rs",
    ] {
        shop.write(&format!("work/{path}"), "needle\n");
    }
    // There is no repository here.
    shop.write("work/.gitignore", "target/**\n*.log\n!keep.log\ncache/\n");
    shop.write("work/sub/.gitignore", "gen.rs\n");
    let query = json!({"Query": "needle"});
    let all = ["a.rs", "logs/keep.log", "sub/src.rs"];
    assert_eq!(files(&shop, query).await, all);
    for (path, found) in [
        ("work/target", vec!["target/out.rs"]),
        ("work/target/out.rs", vec!["target/out.rs"]),
        ("work/deep/sub/cache", vec!["deep/sub/cache/c.rs"]),
        ("work/logs", vec!["logs/keep.log"]),
    ] {
        let query = json!({"Query": "needle", "SearchPath": shop.text(path)});
        assert_eq!(files(&shop, query).await, found, "{path}");
    }
    for named in ["target/out.rs", "target"] {
        let named = json!({"Query": "needle", "Includes": [named]});
        assert_eq!(files(&shop, named).await, ["target/out.rs"]);
    }
    let included = json!({"Query": "needle", "Includes": ["*.log"]});
    assert_eq!(
        files(&shop, included).await,
        ["logs/keep.log", "logs/x.log"]
    );
}

#[tokio::test]
async fn f034_includes_are_globs_but_existing_paths_win() {
    let shop = Workshop::new();
    for path in [
        "app/[id]/page.tsx",
        "app/i/page.tsx",
        "app/i/util.rs",
        "src/main.rs",
        "src/a/b.rs",
    ] {
        shop.write(&format!("work/{path}"), "needle\n");
    }
    for (includes, found) in [
        (
            json!(["*.tsx"]),
            vec!["app/[id]/page.tsx", "app/i/page.tsx"],
        ),
        (json!(["app/[id]/page.tsx"]), vec!["app/[id]/page.tsx"]),
        (json!(["app/[id]"]), vec!["app/[id]/page.tsx"]),
        (
            json!([shop.text("work/app/[id]")]),
            vec!["app/[id]/page.tsx"],
        ),
        (json!(["src"]), vec!["src/a/b.rs", "src/main.rs"]),
        (json!(["src/"]), vec!["src/a/b.rs", "src/main.rs"]),
        (json!(["src/*.rs"]), vec!["src/main.rs"]),
        (json!(["!app", "!a"]), vec!["src/main.rs"]),
        (json!(["*.rs", "!src/**"]), vec!["app/i/util.rs"]),
        (
            json!([]),
            vec![
                "app/[id]/page.tsx",
                "app/i/page.tsx",
                "app/i/util.rs",
                "src/a/b.rs",
                "src/main.rs",
            ],
        ),
    ] {
        let args = json!({"Query": "needle", "Includes": includes});
        assert_eq!(files(&shop, args).await, found, "{includes}");
    }
    let bad = json!({"Query": "x", "Includes": ["{a"], "SearchPath": shop.text("work")});
    let error = shop.error("grep_search", bad).await;
    assert!(
        error.starts_with("\"{a\" is not a usable glob: "),
        "{error}"
    );
}

#[tokio::test]
async fn grep_shows_fifty_and_counts_all() {
    let shop = Workshop::new();
    for number in 0..60 {
        shop.write(&format!("work/f{number:02}"), "needle\nneedle\n");
    }
    let found = grep(&shop, json!({"Query": "needle", "MatchPerLine": true})).await;
    let results = found["results"].as_array().expect("results");
    let places: Vec<(String, u64)> = results
        .iter()
        .map(|hit| {
            let path = hit["path"].as_str().expect("a path").to_owned();
            (path, hit["line_number"].as_u64().expect("a number"))
        })
        .collect();
    let expected: Vec<(String, u64)> = (0..25)
        .flat_map(|number| [1, 2].map(|line| (shop.text(&format!("work/f{number:02}")), line)))
        .collect();
    assert_eq!(places, expected);
    assert_eq!(
        (&found["num_elided_results"], &found["total"]),
        (&json!(70), &json!(120))
    );

    let one = shop.write("work/many", "needle\n".repeat(1000));
    let args = json!({"Query": "needle", "MatchPerLine": true, "SearchPath": one});
    let found = grep(&shop, args).await;
    assert_eq!(
        (&found["num_elided_results"], &found["total"]),
        (&json!(950), &json!(1000))
    );
}

#[tokio::test]
async fn a_match_in_a_very_long_line_is_not_lost() {
    let shop = Workshop::new();
    let filler = "€".repeat(100_000);
    shop.write("work/min.js", format!("{filler}needle{filler}\n"));
    let found = grep(&shop, json!({"Query": "needle", "MatchPerLine": true})).await;
    let line = found["results"][0]["line_content"]
        .as_str()
        .expect("a line");
    assert!(line.contains("€needle€") && line.starts_with('…') && line.ends_with('…'));
    assert!(line.len() < 530, "{}", line.len());
}

#[tokio::test]
async fn grep_skips_binary_files_and_reads_utf_16() {
    let shop = Workshop::new();
    shop.write("work/bin", b"needle\n\0\x01\x02needle\n");
    let utf16: Vec<u8> = "\u{feff}needle\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    shop.write("work/utf16", utf16);
    shop.write("work/latin1", b"caf\xe9 needle\n");
    assert_eq!(
        files(&shop, json!({"Query": "needle"})).await,
        ["latin1", "utf16"]
    );
}

#[tokio::test]
async fn contained_searches_stay_inside() {
    let shop = Workshop::contained();
    shop.write("outside/secret", "needle\n");
    shop.write("work/real/file", "needle\n");
    symlink("../outside", shop.path("work/link")).expect("a link");
    symlink("../outside/secret", shop.path("work/file-link")).expect("a link");
    symlink("real", shop.path("work/good")).expect("a link");
    assert_eq!(
        files(&shop, json!({"Query": "needle"})).await,
        ["real/file"]
    );
    let good = json!({"Query": "needle", "SearchPath": shop.text("work/good")});
    assert_eq!(files(&shop, good).await, ["good/file"]);
    for tool in ["grep_search", "find_by_name"] {
        for path in ["outside", "work/link", "work/.."] {
            let path = shop.text(path);
            let args = json!({
                "Query": "needle", "SearchPath": path, "SearchDirectory": path, "Pattern": "",
            });
            let error = shop.error(tool, args).await;
            assert!(
                error.contains("is outside the allowed directories"),
                "{error}"
            );
        }
    }
}

async fn find(shop: &Workshop, mut args: Value) -> String {
    args["SearchDirectory"] = shop.text("work").into();
    if args.get("Pattern").is_none() {
        args["Pattern"] = "".into();
    }
    shop.ok("find_by_name", args).await
}

fn tree() -> Workshop {
    let shop = Workshop::new();
    for path in [
        "src/main.rs",
        "src/lib.rs",
        "src/Lib.RS",
        "src/data.d/x.toml",
        ".hidden/a.rs",
        "README.md",
        "target/out.rs",
        "app/[id]/page.tsx",
    ] {
        shop.write(&format!("work/{path}"), "");
    }
    shop.write("work/.gitignore", "target/\n");
    shop
}

#[tokio::test]
async fn find_by_name_filters() {
    let shop = tree();
    for (args, found) in [
        (
            json!({}),
            "README.md app/ app/[id]/ app/[id]/page.tsx src/ src/Lib.RS src/data.d/ \
             src/data.d/x.toml src/lib.rs src/main.rs",
        ),
        (
            json!({"Pattern": "*.rs"}),
            "src/Lib.RS src/lib.rs src/main.rs",
        ),
        (json!({"Pattern": "*.RS"}), "src/Lib.RS"),
        (json!({"Pattern": "lib*"}), "src/Lib.RS src/lib.rs"),
        (json!({"Pattern": "Lib*"}), "src/Lib.RS"),
        (json!({"Pattern": "src"}), "src/"),
        (json!({"Pattern": "[id]"}), "app/[id]/"),
        (
            json!({"Pattern": "src/*.rs"}),
            "src/Lib.RS src/lib.rs src/main.rs",
        ),
        (json!({"Pattern": "**/page.*"}), "app/[id]/page.tsx"),
        (json!({"Pattern": "app/[id]/page.tsx"}), "app/[id]/page.tsx"),
        (
            json!({"Type": "directory"}),
            "app/ app/[id]/ src/ src/data.d/",
        ),
        (json!({"Type": "file", "MaxDepth": 1}), "README.md"),
        (json!({"MaxDepth": "1"}), "README.md app/ src/"),
        (
            json!({"Extensions": ["d", ".toml"]}),
            "src/data.d/ src/data.d/x.toml",
        ),
        (json!({"Extensions": ["d"], "Type": "file"}), ""),
        (
            json!({"Pattern": "*.rs", "Excludes": ["main*"]}),
            "src/Lib.RS src/lib.rs",
        ),
        (
            json!({"Type": "file", "Excludes": ["src", "[id]"]}),
            "README.md app/[id]/page.tsx",
        ),
        (
            json!({"Type": "file", "Excludes": ["src", "app/[id]"]}),
            "README.md",
        ),
        (
            json!({"Pattern": format!("{}/src/m*", shop.text("work")), "FullPath": true}),
            "src/main.rs",
        ),
        (json!({"Pattern": "nothing"}), ""),
    ] {
        let names: Vec<&str> = found.split_whitespace().collect();
        let mut expected = format!("Found {} results\n", names.len());
        names.iter().for_each(|name| expected.extend([name, "\n"]));
        assert_eq!(find(&shop, args.clone()).await, expected, "{args}");
    }
}

#[tokio::test]
async fn find_by_name_shows_fifty_and_counts_all() {
    let shop = Workshop::new();
    for number in 0..123 {
        shop.write(&format!("work/f{number:03}"), "");
    }
    let text = find(&shop, json!({"Pattern": "f*"})).await;
    assert!(
        text.starts_with("Found 123 results\nf000\nf001\n"),
        "{text}"
    );
    assert!(
        text.ends_with("\nf049\n(...73 more results not shown)\n"),
        "{text}"
    );

    let args = json!({"Pattern": "f00?", "SearchDirectory": shop.text("work")});
    let Action::FindFile {
        path,
        query,
        output,
    } = shop.action("find_by_name", args).await
    else {
        panic!("another action");
    };
    assert_eq!((path, query.as_str()), (shop.text("work"), "f00?"));
    assert!(
        output
            .expect("an output")
            .starts_with("Found 10 results\nf000\n")
    );
}

#[tokio::test]
async fn find_by_name_says_what_is_wrong() {
    let shop = tree();
    let root = shop.text("work");
    for (args, message) in [
        (json!({"Pattern": "{a"}), "Pattern is not a usable glob: "),
        (
            json!({"Pattern": "", "Excludes": ["{a"]}),
            "\"{a\" is not a usable glob: ",
        ),
        (
            json!({"Pattern": "", "Type": "socket"}),
            "`Type`: expected one of ",
        ),
        (json!({}), "`Pattern`: required, but missing"),
    ] {
        let mut args = args;
        args["SearchDirectory"] = root.clone().into();
        let error = shop.error("find_by_name", args).await;
        assert!(error.starts_with(message), "{error}");
    }
    let file = shop.text("work/README.md");
    let error = shop
        .error(
            "find_by_name",
            json!({"SearchDirectory": file, "Pattern": ""}),
        )
        .await;
    assert_eq!(error, format!("`{file}` is not a directory"));
}

#[tokio::test]
async fn f034_names_with_line_ends_stay_on_their_line() {
    let shop = Workshop::new();
    shop.write("work/new\nline", "needle");
    assert_eq!(
        find(&shop, json!({})).await,
        "Found 1 results\nnew\\nline\n"
    );
    assert_eq!(
        files(&shop, json!({"Query": "needle"})).await,
        ["new\\nline"]
    );
}
