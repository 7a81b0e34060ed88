//! The OpenAPI document: the routes' own documentation, and the parts that all routes share.
//!
//! An undocumented status is a bug (A02), so the answers of the layers around the routes are added here, in one place.

use gapless_wire::{CommandView, Problem, ProblemCode, TxCommandView};
use utoipa::ToSchema;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Required, Response, Schema};

use crate::limits::ApiLimits;

/// Operations with an optional body.
const OPTIONAL_BODIES: [&str; 2] = ["resyncSubmitter", "resubmitTx"];

pub(crate) fn frame() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Gapless")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "A transaction manager: send an intent, and it takes effect on chain exactly once. JSON is camelCase, \
             amounts are decimal strings or 0x-hex, times are RFC 3339. Every unsuccessful answer is a problem \
             (RFC 9457) with a stable `code`.",
        ))
        .build();
    OpenApiBuilder::new().info(info).build()
}

pub(crate) fn finish(mut document: OpenApi, limits: &ApiLimits) -> OpenApi {
    add_schemas(&mut document);
    for (path, item) in &mut document.paths.paths {
        let is_api = path.starts_with("/api/");
        let operations = [
            item.get.as_mut(),
            item.post.as_mut(),
            item.put.as_mut(),
            item.patch.as_mut(),
            item.delete.as_mut(),
            item.head.as_mut(),
            item.options.as_mut(),
            item.trace.as_mut(),
        ];
        for operation in operations.into_iter().flatten() {
            describe(operation, is_api, limits);
        }
    }
    document
}

fn describe(operation: &mut Operation, is_api: bool, limits: &ApiLimits) {
    set_problem_type(operation);
    add(operation, &[ProblemCode::MethodNotAllowed]);
    add(operation, &[ProblemCode::Internal]);
    if !is_api {
        return;
    }
    add(operation, &[ProblemCode::MalformedJson, ProblemCode::MalformedRequest]);
    add(operation, &[ProblemCode::ForeignOrigin]);
    add(operation, &[ProblemCode::InvalidRequest, ProblemCode::BlobsUnsupported, ProblemCode::TooManyItems]);
    add(operation, &[ProblemCode::TooManyRequests, ProblemCode::TooManyWaiters]);
    add(operation, &[ProblemCode::HeadersTooLarge]);
    add(operation, &[ProblemCode::StoreUnavailable, ProblemCode::ShuttingDown]);
    let optional = operation.operation_id.as_deref().is_some_and(|id| OPTIONAL_BODIES.contains(&id));
    if let Some(RefOr::T(body)) = operation.request_body.as_mut().filter(|_| optional) {
        body.required = Some(Required::False);
    }
    if operation.request_body.is_some() {
        add(operation, &[ProblemCode::BodyTimeout]);
        add(operation, &[ProblemCode::BodyTooLarge]);
        add(operation, &[ProblemCode::UnsupportedMediaType]);
    }
    limit_pages(operation, limits);
}

/// Routes document a problem as `body = Problem`; its media type is always `application/problem+json`.
fn set_problem_type(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let (true, RefOr::T(response)) = (status.starts_with(['4', '5']), response)
            && let Some(content) = response.content.swap_remove("application/json")
        {
            response.content.insert("application/problem+json".to_owned(), content);
        }
    }
}

/// Documents a status with its problem codes, unless the route documents the status itself.
fn add(operation: &mut Operation, codes: &[ProblemCode]) {
    let Some(status) = codes.first().map(|code| code.status().to_string()) else { return };
    let known = &mut operation.responses.responses;
    known.entry(status).or_insert_with(|| RefOr::T(problem_response(codes)));
}

fn problem_response(codes: &[ProblemCode]) -> Response {
    let words: Vec<String> = codes.iter().map(|code| format!("`{code}`: {}", code.title())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
    let response = ResponseBuilder::new().description(words.join("; ")).content("application/problem+json", content);
    let later = codes.iter().any(|code| matches!(code.status(), 429 | 503));
    if !later {
        return response.build();
    }
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    let header =
        HeaderBuilder::new().schema(Some(seconds)).description(Some("Seconds after which to try again")).build();
    response.header("Retry-After", header).build()
}

fn limit_pages(operation: &mut Operation, limits: &ApiLimits) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        if parameter.name != "limit" {
            continue;
        }
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(limits.page_size_max))
            .default(Some(limits.page_size_default.into()));
        parameter.schema = Some(RefOr::T(Schema::Object(number.build())));
    }
}

/// Types that no route names itself: those of the layers, and of answers that routes share.
fn add_schemas(document: &mut OpenApi) {
    let mut schemas = Vec::new();
    add_schema::<Problem>(&mut schemas);
    add_schema::<CommandView>(&mut schemas);
    add_schema::<TxCommandView>(&mut schemas);
    let components = document.components.get_or_insert_with(Default::default);
    components.schemas.extend(schemas);
}

type NamedSchema = (String, RefOr<Schema>);

fn add_schema<T: ToSchema>(schemas: &mut Vec<NamedSchema>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}
