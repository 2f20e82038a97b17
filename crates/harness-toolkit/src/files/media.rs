//! Tells what a file is from its first bytes.

/// How many bytes are enough for [`media_type`] and for telling text from other data.
pub(super) const SNIFFED_BYTES: usize = 8192;

/// The MIME type of a file that is shown to the model as it is: image, PDF, audio or video; `None`
/// for everything else.
pub(super) fn media_type(start: &[u8]) -> Option<&'static str> {
    const PLAIN: [(&[u8], &str); 11] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"fLaC", "audio/flac"),
        (b"OggS\0", "audio/ogg"),
        (b"FLV\x01", "video/x-flv"),
        (b"\0\0\x01\xba", "video/mpeg"),
        (b"\0\0\x01\xb3", "video/mpeg"),
        (b"MThd\0\0\0\x06", "audio/midi"),
    ];
    let plain = PLAIN.iter().find(|(magic, _)| start.starts_with(magic));
    if let Some((_, kind)) = plain {
        return Some(kind);
    }
    match start {
        [b'R', b'I', b'F', b'F', _, _, _, _, kind @ ..] => riff(kind),
        [
            b'F',
            b'O',
            b'R',
            b'M',
            _,
            _,
            _,
            _,
            b'A',
            b'I',
            b'F',
            b'F' | b'C',
            ..,
        ] => Some("audio/aiff"),
        [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] => brand.get(..4).map(iso_media),
        [0x1a, 0x45, 0xdf, 0xa3, rest @ ..] => Some(matroska(rest)),
        // A tag in front of the sound; its version and flags keep text apart.
        [b'I', b'D', b'3', 2..=4, 0..=10, ..] => Some("audio/mpeg"),
        // A frame of layer III, or of AAC: the first 11 or 12 bits are set.
        [0xff, 0xfa | 0xfb | 0xf2 | 0xf3, third, ..] if third >> 4 != 0xf && third & 0xc != 0xc => {
            Some("audio/mpeg")
        }
        [0xff, 0xf1 | 0xf9, ..] => Some("audio/aac"),
        _ => None,
    }
}

fn riff(kind: &[u8]) -> Option<&'static str> {
    match kind.get(..4)? {
        b"WEBP" => Some("image/webp"),
        b"WAVE" => Some("audio/wav"),
        b"AVI " => Some("video/x-msvideo"),
        _ => None,
    }
}

fn iso_media(brand: &[u8]) -> &'static str {
    match brand {
        b"heic" | b"heix" | b"hevc" | b"hevx" => "image/heic",
        b"mif1" | b"msf1" => "image/heif",
        b"avif" | b"avis" => "image/avif",
        b"M4A " | b"M4B " => "audio/mp4",
        b"qt  " => "video/quicktime",
        b"3gp4" | b"3gp5" | b"3gp6" => "video/3gpp",
        _ => "video/mp4",
    }
}

fn matroska(rest: &[u8]) -> &'static str {
    let header = &rest[..rest.len().min(64)];
    match header.windows(4).any(|it| it == b"webm") {
        true => "video/webm",
        false => "video/x-matroska",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_known_by_their_first_bytes() {
        let cases: [(&[u8], Option<&str>); 20] = [
            (b"\x89PNG\r\n\x1a\n....", Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF....WEBPVP8 ", Some("image/webp")),
            (b"RIFF....WAVEfmt ", Some("audio/wav")),
            (b"RIFF....XXXX", None),
            (b"RIFF", None),
            (b"%PDF-1.7", Some("application/pdf")),
            (b"ID3\x04\0", Some("audio/mpeg")),
            (b"\xff\xfb\x90\x44", Some("audio/mpeg")),
            (b"\xff\xf1\x50", Some("audio/aac")),
            (b"....ftypisom", Some("video/mp4")),
            (b"....ftypM4A ", Some("audio/mp4")),
            (b"....ftypheic", Some("image/heic")),
            (b"....ftyp", None),
            (b"\x1a\x45\xdf\xa3....webm", Some("video/webm")),
            (b"\x1a\x45\xdf\xa3....", Some("video/x-matroska")),
            (b"ID3 is how tags begin", None),
            (b"\xff\xfe#\0", None), // UTF-16 with a byte order mark
            (b"", None),
        ];
        for (start, kind) in cases {
            assert_eq!(media_type(start), kind, "{start:?}");
        }
    }
}
