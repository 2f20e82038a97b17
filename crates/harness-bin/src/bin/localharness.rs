//! A drop-in for the harness process inside the `google-antigravity` SDKs.

use std::process::ExitCode;

fn main() -> ExitCode {
    harness_bin::serve::main(
        std::env::args_os()
            .skip(1)
            .map(|argument| argument.to_string_lossy().into_owned()),
    )
}
