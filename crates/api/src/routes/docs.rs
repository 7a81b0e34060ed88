//! `/openapi.json`, and `/docs`, which shows it to people. The page loads nothing from other hosts.

use std::sync::Arc;

use axum::Extension;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse, Response};
use utoipa::openapi::OpenApi;

/// The document as text, built once.
#[derive(Clone, Debug)]
pub(super) struct Document(Arc<str>);

impl Document {
    pub(super) fn of(document: &OpenApi) -> Self {
        Document(document.to_json().unwrap_or_else(|_| "{}".to_owned()).into())
    }
}

pub(super) async fn openapi(Extension(Document(text)): Extension<Document>) -> Response {
    ([(CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}

pub(super) async fn page() -> Html<&'static str> {
    Html(include_str!("docs.html"))
}
