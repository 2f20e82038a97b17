use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use harness_types::{
    Action, BoxFuture, Media, ResultContent, Tool, ToolCall, ToolClass, ToolContext, ToolError,
    ToolOutput, ToolSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::media::{SNIFFED_BYTES, media_type};
use super::scan::{Next, Scan, Scanned, Wanted};
use super::text::{BOM, Utf16Reader, decode, is_binary, utf16};
use super::{failed, open_regular};
use crate::built_ins::{parse_path, path_arg, read_args, shown_path, spec};
use crate::work::{Cancelled, blocking};
use crate::{FileAccess, WorkspacePath};

/// The most lines of one view.
const MAX_LINES: u64 = 800;

/// The most bytes of one view, without line numbers.
const MAX_BYTES: usize = 46_080;

/// The largest attachment.
const MAX_MEDIA_BYTES: u64 = 20 * 1024 * 1024;

/// `view_file`: the content of a file.
///
/// Text comes with line numbers, at most 800 lines and 46,080 bytes at once, cut on line borders;
/// the header says what is shown and how to go on (F036). A line that is longer is shown in parts
/// (F046). The file is read as a stream: its size does not matter for memory. UTF-16 with a mark is
/// decoded, bytes that are not UTF-8 are read as Latin-1. Images, PDF, audio and video, known by
/// their content, are attached up to 20 MB. Other data is described.
#[derive(Debug, Clone)]
pub struct ViewFile {
    access: FileAccess,
}

impl ViewFile {
    /// The tool with this access.
    pub fn new(access: FileAccess) -> Self {
        Self { access }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Args {
    absolute_path: String,
    start_line: Option<i64>,
    end_line: Option<i64>,
    content_offset: Option<i64>,
}

/// The lines that are asked for, from 0.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: u64,
    end: u64,
    offset: u64,
}

impl Range {
    /// Numbers below 1 are those of a model that means "from the start" or "to the end".
    fn new(start: Option<i64>, end: Option<i64>, offset: Option<i64>) -> Result<Self, ToolError> {
        let positive = |number: Option<i64>| number.and_then(|it| u64::try_from(it).ok());
        let first = positive(start).filter(|it| *it > 0).map_or(0, |it| it - 1);
        let most = first.saturating_add(MAX_LINES);
        let end = match positive(end).filter(|it| *it > 0) {
            Some(end) if end <= first => {
                return Err(ToolError::invalid(format!(
                    "EndLine {end} is before StartLine {}",
                    first + 1
                )));
            }
            Some(end) => end.min(most),
            None => most,
        };
        Ok(Self {
            first,
            end,
            offset: positive(offset).unwrap_or(0),
        })
    }

    fn action(self, path: String) -> Action {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Action::ViewFile {
            path,
            start_line: small(self.first),
            end_line: small(self.end.saturating_sub(1)),
            content_offset: small(self.offset),
        }
    }
}

impl Tool for ViewFile {
    fn spec(&self) -> ToolSpec {
        spec(
            ("view_file", "view_file"),
            ToolClass::ReadOnly,
            "Shows a file. Text comes with line numbers (`12: text`; number, colon and space are \
             not part of the file), at most 800 lines and 46080 bytes per call; the result says \
             which lines are shown and how to see more. Images, PDF, audio and video are attached.",
            &["AbsolutePath"],
            json!({
                "AbsolutePath": {"type": "string", "description": "Absolute path of the file."},
                "StartLine": {"type": "integer", "description": "First line, from 1. Default 1."},
                "EndLine": {
                    "type": "integer",
                    "description": "Last line, inclusive. Default: 800 lines from StartLine.",
                },
                "ContentOffset": {
                    "type": "integer",
                    "description": "Bytes to leave out at the start of the range. Only needed to \
                                    see the rest of a long line, as an earlier result told.",
                },
            }),
        )
    }

    fn opening(&self, call: &ToolCall) -> Action {
        let number = |name: &str| call.args.get(name).and_then(Value::as_i64);
        let range = Range::new(
            number("StartLine"),
            number("EndLine"),
            number("ContentOffset"),
        );
        let nothing = Range {
            first: 0,
            end: 0,
            offset: 0,
        };
        range
            .unwrap_or(nothing)
            .action(shown_path(&call.args, "AbsolutePath"))
    }

    fn paths(&self, args: &Map<String, Value>) -> Vec<PathBuf> {
        path_arg(args, "AbsolutePath")
    }

    fn call<'a>(
        &'a self,
        _: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Args = read_args(args)?;
            let path = parse_path("AbsolutePath", &args.absolute_path)?;
            let range = Range::new(args.start_line, args.end_line, args.content_offset)?;
            let access = self.access.clone();
            blocking(move |cancelled| view(&access, &path, range, cancelled)).await
        })
    }
}

fn view(
    access: &FileAccess,
    path: &WorkspacePath,
    range: Range,
    cancelled: &Cancelled,
) -> Result<ToolOutput, ToolError> {
    let broken = |error: io::Error| failed("read", path, &error);
    let (mut file, metadata) = open_regular(access, path)?;
    let mut start = Vec::with_capacity(SNIFFED_BYTES);
    (&mut file)
        .take(SNIFFED_BYTES as u64)
        .read_to_end(&mut start)
        .map_err(broken)?;

    if let Some(mime_type) = media_type(&start) {
        return attach(path, mime_type, start, file, metadata.len(), cancelled);
    }
    let rest = cancelled.guard(file);
    let (text, encoding): (Box<dyn Read + '_>, _) = match utf16(&start) {
        Some(order) => {
            let reader = Utf16Reader::new(start[2..].chain(rest), order);
            (Box::new(reader), "UTF-16, shown as UTF-8")
        }
        None if is_binary(&start) => return Ok(describe(path, &start, metadata.len())),
        None => match start.strip_prefix(BOM) {
            Some(text) => (Box::new(text.chain(rest)), "UTF-8 with a byte order mark"),
            None => (Box::new(start.chain(rest)), ""),
        },
    };
    let wanted = Wanted {
        first: range.first,
        end: range.end,
        offset: range.offset,
        limit: MAX_BYTES,
    };
    let scanned = scan(text, wanted).map_err(broken)?;
    present(path, range, &scanned, metadata.len(), encoding)
}

fn scan(mut text: impl Read, wanted: Wanted) -> io::Result<Scanned> {
    let mut scan = Scan::new(wanted);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match text.read(&mut buffer) {
            Ok(0) => return Ok(scan.finish()),
            Ok(read) => scan.feed(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn present(
    path: &WorkspacePath,
    range: Range,
    scanned: &Scanned,
    file_bytes: u64,
    encoding: &str,
) -> Result<ToolOutput, ToolError> {
    let total = scanned.total_lines;
    if total == 0 {
        let text = format!("File Path: `{path}`\nThe file is empty.\n");
        return Ok(ToolOutput::text(text).with_action(Action::ViewFile {
            path: path.to_string(),
            start_line: 0,
            end_line: 0,
            content_offset: 0,
        }));
    }
    if range.first >= total {
        return Err(ToolError::failed(format!(
            "StartLine {} is beyond the end: `{path}` has {total} lines",
            range.first + 1
        )));
    }
    if range.offset > 0 && range.offset >= scanned.range_bytes {
        return Err(ToolError::failed(format!(
            "ContentOffset {} is beyond the end: the lines asked for have {} bytes",
            range.offset, scanned.range_bytes
        )));
    }

    let (text, foreign) = decode(&scanned.shown);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = scanned.first + 1;
    let last = first + (lines.len() as u64).saturating_sub(1);
    let mut out = format!(
        "File Path: `{path}`\nTotal Lines: {total}\nTotal Bytes: {file_bytes}\n\
         Showing lines {first} to {last}\n"
    );
    if !encoding.is_empty() {
        let _ = writeln!(out, "Encoding: {encoding}");
    }
    if foreign > 0 {
        let _ = writeln!(
            out,
            "Encoding: not UTF-8; {foreign} bytes are shown as Latin-1 characters"
        );
    }
    if scanned.crlf_lines == total || scanned.crlf_lines > 0 && scanned.crlf_lines + 1 == total {
        out.push_str("Line ends: CRLF\n");
    } else if scanned.crlf_lines > 0 {
        let _ = writeln!(
            out,
            "Line ends: LF, but CRLF on {} lines",
            scanned.crlf_lines
        );
    }
    let shown_end = scanned.offset + scanned.shown.len() as u64;
    let in_part = scanned.offset > 0 || matches!(scanned.next, Next::Offset(_));
    if in_part {
        let _ = writeln!(
            out,
            "Showing bytes {} to {shown_end} of the {} bytes of lines {} to {}",
            scanned.offset,
            scanned.range_bytes,
            range.first + 1,
            range.end.min(total),
        );
    }
    for (number, line) in (first..).zip(&lines) {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let _ = writeln!(out, "{number}: {line}");
    }
    out.push_str(&how_to_go_on(range, scanned, last));

    let shown = Range {
        first: scanned.first,
        end: last,
        offset: scanned.offset,
    };
    Ok(ToolOutput::text(out).with_action(shown.action(path.to_string())))
}

fn how_to_go_on(range: Range, scanned: &Scanned, last: u64) -> String {
    let total = scanned.total_lines;
    match scanned.next {
        Next::Offset(offset) => format!(
            "Line {last} is cut. To see more, call again with StartLine={}, EndLine={} and \
             ContentOffset={offset}.\n",
            range.first + 1,
            range.end.min(total),
        ),
        Next::Line(next) => format!(
            "Cut at {MAX_BYTES} bytes. To see more, call again with StartLine={}.\n",
            next + 1
        ),
        Next::End if last < total => format!(
            "{} more lines follow. To see them, call again with StartLine={}.\n",
            total - last,
            last + 1
        ),
        Next::End if scanned.first == 0 && scanned.offset == 0 => {
            "This is the whole file.\n".to_owned()
        }
        Next::End => "This is the end of the file.\n".to_owned(),
    }
}

fn attach(
    path: &WorkspacePath,
    mime_type: &str,
    start: Vec<u8>,
    file: File,
    len: u64,
    cancelled: &Cancelled,
) -> Result<ToolOutput, ToolError> {
    let too_large = |bytes: u64| {
        ToolError::failed(format!(
            "`{path}` ({mime_type}) is too large to attach: {bytes} bytes, the most is \
             {MAX_MEDIA_BYTES}"
        ))
    };
    if len > MAX_MEDIA_BYTES {
        return Err(too_large(len));
    }
    let mut data = start;
    // It may grow while it is read.
    let room = MAX_MEDIA_BYTES + 1 - data.len() as u64;
    cancelled
        .guard(file)
        .take(room)
        .read_to_end(&mut data)
        .map_err(|error| failed("read", path, &error))?;
    if data.len() as u64 > MAX_MEDIA_BYTES {
        return Err(too_large(data.len() as u64));
    }
    let text = format!(
        "File Path: `{path}`\nType: {mime_type}\nTotal Bytes: {}\nThe whole file is attached.\n",
        data.len()
    );
    Ok(ToolOutput {
        content: ResultContent::Text(text),
        media: vec![Media {
            mime_type: mime_type.to_owned(),
            description: String::new(),
            data: data.into(),
        }],
        action: None,
    })
}

fn describe(path: &WorkspacePath, start: &[u8], len: u64) -> ToolOutput {
    let hex: Vec<String> = start
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let kind = match start {
        [0x7f, b'E', b'L', b'F', ..] => " (an ELF program or library)",
        [b'P', b'K', 3, 4, ..] => " (a ZIP archive or a file based on one)",
        [0x1f, 0x8b, ..] => " (gzip)",
        _ if start.starts_with(b"SQLite format 3\0") => " (an SQLite database)",
        _ => "",
    };
    ToolOutput::text(format!(
        "File Path: `{path}`\nTotal Bytes: {len}\nThis is binary data{kind}, its content is not \
         shown. It begins with the bytes {}.\n",
        hex.join(" ")
    ))
}
