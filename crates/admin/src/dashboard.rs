//! The files of the dashboard, which are parts of this program.
//!
//! Nothing is loaded from elsewhere, and the browser is told to allow nothing else.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

const POLICY: &str =
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The file of that name; the empty name is the page itself.
pub(crate) fn file(name: &str) -> Option<Response> {
    let (kind, text) = match name {
        "" => ("text/html; charset=utf-8", include_str!("../dashboard/index.html")),
        "style.css" => ("text/css; charset=utf-8", include_str!("../dashboard/style.css")),
        "charts.js" => ("text/javascript; charset=utf-8", include_str!("../dashboard/charts.js")),
        "dashboard.js" => ("text/javascript; charset=utf-8", include_str!("../dashboard/dashboard.js")),
        _ => return None,
    };
    let mut response = Response::new(Body::from(text));
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}
