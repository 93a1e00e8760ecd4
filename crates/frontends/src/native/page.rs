//! The minimal page at `/`: sessions, one of them live, answers and prompts. Three static files, open to anyone;
//! everything they show comes by the native protocol, as for every other client.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

/// Is this one of the page's files? The door lets anyone read those.
pub fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/app.js" | "/style.css")
}

pub(super) async fn index() -> Response {
    file("text/html; charset=utf-8", include_bytes!("page/index.html"))
}

pub(super) async fn script() -> Response {
    file("text/javascript; charset=utf-8", include_bytes!("page/app.js"))
}

pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", include_bytes!("page/style.css"))
}

fn file(kind: &'static str, bytes: &'static [u8]) -> Response {
    let mut response = bytes.into_response();
    // A new version of Portolan brings a new page: the browser asks each time. The door adds what keeps others away.
    for (name, value) in [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    const FILES: [&str; 2] = [include_str!("page/index.html"), include_str!("page/app.js")];

    #[test]
    fn agent_text_can_never_become_markup_or_script() {
        for dangerous in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(FILES.iter().all(|file| !file.contains(dangerous)), "`{dangerous}` in the page");
        }
    }

    #[test]
    fn the_page_has_no_inline_script_or_style_and_loads_nothing_from_elsewhere() {
        let html = FILES[0];
        for foreign in
            ["<script>", "<style>", " style=", " onclick=", " onload=", "http://", "https://", "//cdn"]
        {
            assert!(!html.contains(foreign), "`{foreign}` in the page");
        }
    }
}
