use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use harness_toolkit::{Containment, PathError, WorkspacePath, contained};
use proptest::prelude::*;
use tempfile::TempDir;

fn parsed(text: &str) -> Result<String, String> {
    WorkspacePath::parse(text)
        .map(|path| path.to_string())
        .map_err(|error| error.to_string())
}

#[test]
fn absolute_paths_and_file_uris_are_taken() {
    for (text, path) in [
        ("/a/b", "/a/b"),
        ("/a//b/./c/", "/a/b/c"),
        ("/a/../../b", "/b"),
        ("/", "/"),
        ("file:///a%20b/%C3%A9", "/a b/é"),
        ("file://localhost/a", "/a"),
        ("file:/a", "/a"),
        ("file:///a/%2e%2e/b", "/b"),
        ("/a%20b", "/a%20b"),
        (
            "/app/[locale]/(auth)/it's \"x\"\n-y",
            "/app/[locale]/(auth)/it's \"x\"\n-y",
        ),
    ] {
        assert_eq!(parsed(text), Ok(path.to_owned()), "{text}");
    }
}

#[test]
fn other_paths_are_refused_with_a_hint() {
    for (text, message) in [
        ("", "the path is empty; give an absolute path"),
        (
            "src/a.rs",
            "\"src/a.rs\" is not an absolute path; give one that begins with `/`",
        ),
        (
            "-rf",
            "\"-rf\" is not an absolute path; give one that begins with `/`",
        ),
        (
            "~/a",
            "`~` is not expanded in \"~/a\"; give the absolute path of the home directory",
        ),
        ("/a\0b", "the path holds a NUL character"),
        ("file:///a%00b", "the path holds a NUL character"),
    ] {
        assert_eq!(parsed(text), Err(message.to_owned()), "{text}");
    }
    for uri in [
        "file:///a%2",
        "file:///%zz",
        "file://host/a",
        "file:a",
        "https://x/y",
    ] {
        let error = WorkspacePath::parse(uri).expect_err("no path");
        assert!(matches!(error, PathError::Uri { .. }), "{uri}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_clean_path_or_refused(text in "(file://|~|)[/.a%0-9é\0]{0,12}") {
        if let Ok(path) = WorkspacePath::parse(&text) {
            prop_assert!(path.as_path().is_absolute());
            let again = WorkspacePath::from_path(path.as_path()).expect("absolute");
            prop_assert_eq!(&again, &path);
            prop_assert!(!path.as_path().iter().any(|name| name == ".." || name == "."));
        }
    }
}

fn folders() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a real path");
    fs::create_dir_all(root.join("work/sub")).expect("folders");
    fs::create_dir_all(root.join("outside")).expect("folders");
    fs::write(root.join("outside/secret"), "x").expect("a file");
    (folder, root)
}

#[test]
fn f021_links_are_followed_before_the_decision_also_dangling_ones() {
    let (_folder, root) = folders();
    let work = root.join("work");
    symlink("../outside/secret", work.join("to-file")).expect("a link");
    symlink("../outside/not-yet", work.join("dangling")).expect("a link");
    symlink(root.join("outside"), work.join("to-folder")).expect("a link");
    symlink("dangling", work.join("twice")).expect("a link");
    symlink("sub/../../outside", work.join("up")).expect("a link");
    symlink("sub", work.join("inside")).expect("a link");
    symlink("loop", work.join("loop")).expect("a link");

    let roots = [work.clone()];
    let real = |path: &str| contained(&work.join(path), &roots);
    for (path, expected) in [
        ("", work.clone()),
        ("new/folder/file", work.join("new/folder/file")),
        ("inside/file", work.join("sub/file")),
        ("sub/../file", work.join("file")),
        ("to-folder/../file", work.join("file")), // by the letter, as it is opened
    ] {
        assert_eq!(real(path).expect("inside"), expected.join(""), "{path}");
    }
    for path in [
        "to-file",
        "dangling",
        "to-folder",
        "to-folder/new",
        "twice",
        "up/secret",
        "..",
    ] {
        let error = real(path).expect_err("outside");
        assert!(
            matches!(error, PathError::Outside { .. }),
            "{path}: {error}"
        );
    }
    let error = real("loop").expect_err("a loop");
    assert!(matches!(error, PathError::Unresolvable { .. }), "{error}");
}

#[test]
fn f020_proc_and_neighbours_with_a_like_name_are_outside() {
    let (_folder, root) = folders();
    fs::create_dir(root.join("work-2")).expect("a folder");
    let roots = [root.join("work")];
    for path in [
        root.join("work-2/file").as_path(),
        Path::new("/proc/self/environ"),
        Path::new("/proc/self/root/etc/passwd"),
        Path::new("/"),
    ] {
        let error = contained(path, &roots).expect_err("outside");
        assert!(matches!(error, PathError::Outside { .. }), "{error}");
    }
}

#[test]
fn containment_names_the_path_and_the_roots() {
    let (_folder, root) = folders();
    symlink("work", root.join("link-to-work")).expect("a link");
    // A root may be a link, may be missing, and more than one counts.
    let missing = root.join("missing");
    let containment = Containment::new([root.join("link-to-work"), missing.clone()]);
    assert_eq!(containment.check(&root.join("work/sub/x")), Ok(()));
    assert_eq!(containment.check(&missing.join("x")), Ok(()));

    let secret = root.join("outside/secret");
    assert_eq!(
        containment.check(&secret),
        Err(format!(
            "access to {secret:?} is refused: it is outside the allowed directories {:?}",
            [root.join("link-to-work"), missing]
        ))
    );
    assert!(
        Containment::new(Vec::<PathBuf>::new())
            .check(&secret)
            .is_err()
    );
    assert!(Containment::new([""]).check(&secret).is_err());
    assert!(containment.check(Path::new("work")).is_err());
}
