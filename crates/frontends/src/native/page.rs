//! The page at `/`: embedded static files, readable without a token. The page gets everything it shows through the
//! native protocol, like every other client; its source is in `web/`.
//!
//! Compresses nothing and reads no disk. Names under `/assets/` contain the digest of the file and may be cached for
//! ever; a browser asks for other files each time, and gets 304 if they are unchanged.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};

/// An embedded file.
#[derive(Debug)]
struct File {
    path: &'static str,
    kind: &'static str,
    etag: &'static str,
    plain: &'static [u8],
    brotli: Option<&'static [u8]>,
}

/// The files that `cargo xtask page` built, sorted by path; empty if the page was not built before this was compiled.
static BUILT: &[File] = &include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// A note on how to get the page, if there is none.
static ABSENT: File = File {
    path: "/",
    kind: "text/html; charset=utf-8",
    etag: "\"absent\"",
    plain: include_bytes!("page/absent.html"),
    brotli: None,
};

fn find(path: &str) -> Option<&'static File> {
    BUILT
        .binary_search_by(|file| file.path.cmp(path))
        .map(|at| &BUILT[at])
        .ok()
        .or_else(|| (path == ABSENT.path).then_some(&ABSENT))
}

/// The path of every file of the page.
pub(super) fn paths() -> impl Iterator<Item = &'static str> {
    std::iter::once(ABSENT.path).chain(BUILT.iter().map(|file| file.path).filter(|path| *path != ABSENT.path))
}

/// Is this a file of the page? The door lets everyone read these files.
pub fn is_open(path: &str) -> bool {
    find(path).is_some()
}

/// Serves any file of the page.
pub(super) async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    find(uri.path()).map_or_else(|| StatusCode::NOT_FOUND.into_response(), |file| answer(file, &headers))
}

fn answer(file: &File, asked: &HeaderMap) -> Response {
    let cache =
        if file.path.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, file.kind),
        (header::CACHE_CONTROL, cache),
        (header::ETAG, file.etag),
        (header::VARY, "accept-encoding"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if names(asked, &header::IF_NONE_MATCH).any(|tag| tag.trim_start_matches("W/") == file.etag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    let takes_brotli = names(asked, &header::ACCEPT_ENCODING).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("br") && parts.next() != Some("q=0")
    });
    *response.body_mut() = match file.brotli.filter(|_| takes_brotli) {
        Some(small) => {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
            Body::from(small)
        }
        None => Body::from(file.plain),
    };
    response
}

/// The comma-separated parts of a header, however often it was sent.
fn names<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    const FILE: File = File {
        path: "/assets/app-1.js",
        kind: "text/javascript; charset=utf-8",
        etag: "\"00ff\"",
        plain: b"plain",
        brotli: Some(b"small"),
    };

    async fn asked(
        file: &File,
        headers: &[(header::HeaderName, &'static str)],
    ) -> (u16, Option<String>, Vec<u8>) {
        let asked =
            headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let response = answer(file, &asked);
        let coding = response.headers().get(header::CONTENT_ENCODING).map(|v| v.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        (status, coding, to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec())
    }

    #[tokio::test]
    async fn a_browser_gets_what_is_already_compressed_and_others_get_it_plain() {
        let br = Some("br".to_owned());
        let coded = |value| [(header::ACCEPT_ENCODING, value)];
        assert_eq!(
            asked(&FILE, &coded("gzip, deflate, br, zstd")).await,
            (200, br.clone(), b"small".to_vec())
        );
        assert_eq!(asked(&FILE, &coded("br;q=0.8")).await, (200, br, b"small".to_vec()));
        assert_eq!(asked(&FILE, &coded("gzip, br;q=0")).await, (200, None, b"plain".to_vec()));
        assert_eq!(asked(&FILE, &[]).await, (200, None, b"plain".to_vec()));
    }

    #[tokio::test]
    async fn what_a_browser_has_already_is_not_sent_again() {
        for tag in ["\"00ff\"", "W/\"00ff\"", "\"other\", \"00ff\""] {
            assert_eq!(asked(&FILE, &[(header::IF_NONE_MATCH, tag)]).await, (304, None, Vec::new()), "{tag}");
        }
        assert_eq!(asked(&FILE, &[(header::IF_NONE_MATCH, "\"other\"")]).await.0, 200);
    }

    #[test]
    fn only_files_of_the_page_are_open() {
        assert!(is_open("/"));
        for path in ["", "/index.html", "/assets", "/assets/", "/assets/../api", "/api/v1/sessions", "//"] {
            assert!(!is_open(path), "{path}");
        }
    }

    #[test]
    fn the_page_has_nothing_inline_and_loads_nothing_from_elsewhere() {
        let index = find("/").map(|file| String::from_utf8_lossy(file.plain).into_owned()).unwrap();
        for foreign in
            ["<script>", "<style>", " style=", " onclick=", " onload=", "http://", "https://", "=\"//"]
        {
            assert!(!index.contains(foreign), "`{foreign}` in the page");
        }
    }

    #[test]
    fn the_embedded_files_are_found_by_their_paths() {
        for file in BUILT {
            assert_eq!(find(file.path).map(|found| found.path), Some(file.path));
        }
    }
}
