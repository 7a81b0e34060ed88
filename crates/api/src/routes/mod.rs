//! The routes, one file for each group, and their assembly.

mod audit;
mod authorities;
mod batch;
mod cancel;
mod chains;
mod commands;
mod create;
mod docs;
mod health;
mod list;
mod nonces;
mod parameters;
mod read;
mod replace;
mod slots;
mod store;
mod submitters;
mod wait;

use std::sync::Arc;

use axum::http::Uri;
use axum::middleware::from_fn_with_state;
use axum::{Extension, Router};
use gapless_wire::{Problem, ProblemCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::problem::Refusal;
use crate::shared::Shared;
use crate::{guard, observe, openapi};

/// All routes of the server.
pub fn router(app: App) -> Router {
    let shared = Arc::new(Shared::new(app));
    let (routes, document) = documented(&shared);
    routes
        .route("/openapi.json", axum::routing::get(docs::openapi).layer(Extension(docs::Document::of(&document))))
        .route("/docs", axum::routing::get(docs::page))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(&shared), observe::observe))
        .with_state(shared)
}

fn documented(shared: &Arc<Shared>) -> (Router<Arc<Shared>>, utoipa::openapi::OpenApi) {
    let api = OpenApiRouter::new()
        .routes(routes!(create::create_tx, list::list_tx))
        .routes(routes!(batch::create_batch))
        .routes(routes!(read::tx_by_request))
        .routes(routes!(read::tx))
        .routes(routes!(submitters::list_submitters))
        .routes(routes!(submitters::submitter))
        .merge(commands::routes())
        .routes(routes!(cancel::cancel_tx))
        .routes(routes!(cancel::cancel_pending))
        .routes(routes!(replace::replace_tx))
        .routes(routes!(replace::resubmit_tx))
        .routes(routes!(nonces::reserve))
        .routes(routes!(nonces::submit))
        .routes(routes!(nonces::release))
        .routes(routes!(audit::list_audit))
        .routes(routes!(chains::list_chains))
        .routes(routes!(chains::chain))
        .routes(routes!(chains::accept_chain))
        .routes(routes!(store::declare_lost))
        .routes(routes!(store::declare_reconciled))
        .layer(from_fn_with_state(Arc::clone(shared), guard::guard));
    let open = OpenApiRouter::new()
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics));
    let (router, paths) = OpenApiRouter::with_openapi(openapi::frame()).merge(api).merge(open).split_for_parts();
    (router, openapi::finish(paths, &shared.app.limits))
}

async fn not_found(uri: Uri) -> Refusal {
    Problem::new(ProblemCode::NotFound).detail(format!("there is nothing at {}", uri.path())).into()
}

async fn method_not_allowed() -> Refusal {
    Refusal::of(ProblemCode::MethodNotAllowed)
}
