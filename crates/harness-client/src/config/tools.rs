use harness_proto::localharness::HarnessSideTools;

macro_rules! builtins {
    ($($(#[$doc:meta])* $variant:ident, $policy:literal, $field:ident;)*) => {
        /// A tool that the harness runs itself.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Builtin {
            $($(#[$doc])* $variant,)*
        }

        impl Builtin {
            /// All of them.
            pub const ALL: [Self; builtins!(@count $($variant)*)] = [$(Self::$variant,)*];

            /// The name that policies and hooks know the tool by.
            pub fn policy_name(self) -> &'static str {
                match self {
                    $(Self::$variant => $policy,)*
                }
            }
        }

        pub(super) fn set_enabled(toggles: &mut HarnessSideTools, tool: Builtin, enabled: bool) {
            match tool {
                $(Builtin::$variant => {
                    toggles.$field.get_or_insert_default().enabled = Some(enabled);
                })*
            }
        }
    };
    (@count $($variant:ident)*) => { [$(builtins!(@one $variant)),*].len() };
    (@one $variant:ident) => { () };
}

builtins! {
    /// Asks the user questions.
    AskQuestion, "ask_question", user_questions;
    /// Creates files.
    CreateFile, "create_file", write_to_file;
    /// Edits files.
    EditFile, "edit_file", file_edit;
    /// Finds files by name.
    FindFile, "find_file", find;
    /// Makes images.
    GenerateImage, "generate_image", generate_image;
    /// Lists folders.
    ListDirectory, "list_directory", list_dir;
    /// Watches and ends background commands.
    ManageTask, "manage_task", manage_task;
    /// Reads web pages.
    ReadUrlContent, "read_url_content", read_url_content;
    /// Runs shell commands.
    RunCommand, "run_command", run_command;
    /// Runs workflow scripts.
    RunWorkflow, "run_workflow", run_workflow;
    /// Wakes the agent later.
    Schedule, "schedule", schedule;
    /// Searches file contents.
    SearchDirectory, "search_directory", grep_search;
    /// Searches the web.
    SearchWeb, "search_web", search_web;
    /// Starts subagents.
    InvokeSubagent, "invoke_subagent", subagents;
    /// Shows files.
    ViewFile, "view_file", view_file;
}
