//! The description of the API for programs (OpenAPI 3.1), made from the tables by which requests are answered.
//!
//! Holds: docs/openapi.json is this (`the_description_is_the_one_in_the_docs`), and each of its operations is there
//!        (`every_operation_of_the_description_is_answered`).

use crate::place::{LISTS, List, NAMESPACES, SECTIONS};
use serde_json::{Map, Value, json};

/// The document.
pub(crate) fn description() -> Value {
    let mut paths = Map::new();
    let mut put = |path: &str, methods: Value| drop(paths.insert(path.to_owned(), methods));
    for path in ["/healthz", "/readyz"] {
        let answers = json!({ "200": shown("it is well"), "503": shown("it is not, with the reasons") });
        put(path, json!({ "get": { "responses": answers } }));
    }
    let text = json!({ "description": "all measures", "content": { "text/plain": {} } });
    put("/metrics", json!({ "get": { "responses": { "200": text } } }));
    let asked = ["device", "host", "subsystem", "namespace"].map(|field| parameter(field, "query"));
    put("/v1/stats", json!({ "parameters": asked, "get": reading() }));
    let slow = shown("the slowest IOs of the last minute; times in seconds");
    let slow = json!({ "parameters": asked, "get": { "responses": { "200": slow, "default": refused() } } });
    put("/v1/slow", slow);
    let events =
        json!({ "description": "the last second, once a second", "content": { "text/event-stream": {} } });
    put("/v1/events", json!({ "get": { "responses": { "200": events, "default": refused() } } }));
    put("/v1/openapi.json", json!({ "get": { "responses": { "200": shown("this document") } } }));
    put("/v1/operations", json!({ "get": { "responses": { "200": shown("the writes of late") } } }));
    let id = parameter("id", "path");
    put("/v1/operations/{id}", json!({ "parameters": [id], "get": reading() }));
    for path in ["/v1/reload", "/v1/config/discard"] {
        put(path, json!({ "post": action() }));
    }
    let host = parameter("nqn", "path");
    put("/v1/hosts/{nqn}/disconnect", json!({ "parameters": [host], "post": action() }));
    let uses = shown("the uses of each key of the host, in seconds");
    let uses = json!({ "responses": { "200": uses, "default": refused() } });
    put("/v1/hosts/{nqn}/keys", json!({ "parameters": [host], "get": uses }));
    let device = parameter("name", "path");
    put(
        "/v1/devices/{name}/room",
        json!({ "parameters": [device], "get": asking("the space of the directory, in bytes") }),
    );
    let all = "/v1/devices/{name}/snapshots";
    put(all, json!({ "parameters": [device], "get": asking("the snapshots in the directory") }));
    let query = json!({ "name": "dry_run", "in": "query", "schema": { "type": "boolean" } });
    let parameters = [device, parameter("snapshot", "path"), query.clone()];
    let (mut take, delete) =
        (asking("the snapshot, and how long writes have waited"), asking("it is deleted"));
    take["requestBody"] = json!({ "required": true, "content": { "application/json": {} } });
    put(&format!("{all}/{{snapshot}}"), json!({ "parameters": parameters, "put": take, "delete": delete }));
    let group = || [parameter("name", "path")];
    let mut take = asking("the group is held; the back-ends of its devices are fenced");
    take["parameters"] = json!([query]);
    take["requestBody"] = json!({ "required": true, "content": { "application/json": {} } });
    let held = asking("whether the group is held, and with which generation");
    put("/v1/groups/{name}/takeover", json!({ "parameters": group(), "get": held, "post": take }));
    let released = asking("the group is not held; no IO is under way at the back-ends of its devices");
    put("/v1/groups/{name}/release", json!({ "parameters": [group()[0]], "post": released }));
    let asked = [parameter("host", "query"), parameter("from", "query")];
    put(
        "/v1/connections",
        json!({ "parameters": asked, "get": asking("at most 1,000 connections of hosts") }),
    );
    let left = || asking("the connections and IOs that hosts still have");
    put("/v1/drain", json!({ "get": left(), "post": left(), "delete": left() }));
    put("/v1/config", json!({ "get": reading(), "put": writing(true), "patch": writing(true) }));
    for section in SECTIONS {
        let (put_or_patch, delete) = (writing(true), writing(false));
        let methods =
            json!({ "get": reading(), "put": put_or_patch, "patch": put_or_patch, "delete": delete });
        put(&format!("/v1/{section}"), methods);
    }
    let mut list = |before: &str, of: &[Value], list: List| {
        let all = format!("{before}/{}", list.path);
        let mut parameters = of.to_vec();
        put(&all, json!({ "parameters": parameters, "get": reading() }));
        parameters.push(parameter(list.key, "path"));
        let (put_or_patch, delete) = (writing(true), writing(false));
        let methods = json!({ "parameters": parameters, "get": reading(), "put": put_or_patch, "patch": put_or_patch, "delete": delete });
        put(&format!("{all}/{{{}}}", list.key), methods);
    };
    LISTS.into_iter().for_each(|each| list("/v1", &[], each));
    list("/v1/subsystems/{nqn}", &[parameter("nqn", "path")], NAMESPACES);
    json!({
        "openapi": "3.1.0",
        "info": { "title": "gimbal", "version": "1", "description": "The admin API of a running target; docs/admin.md is the contract." },
        "security": [{ "token": [] }, {}],
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } }, "schemas": schemas() },
    })
}

fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let maybe = json!({ "type": ["string", "null"] });
    let change = json!({ "type": "object", "properties": { "subject": text, "name": text, "from": maybe, "to": maybe, "text": text } });
    let problem = json!({ "type": "object", "properties": { "field": text, "line": { "type": ["integer", "null"] }, "what": text, "advice": text } });
    json!({
        "Done": { "type": "object", "properties": { "generation": text, "changes": { "type": "array", "items": change } } },
        "Pending": { "type": "object", "properties": { "operation": text, "pending": text, "generation": text } },
        "Problem": { "type": "object", "properties": {
            "type": text, "title": text, "status": { "type": "integer" }, "detail": text, "problems": { "type": "array", "items": problem },
        } },
    })
}

fn parameter(name: &str, place: &str) -> Value {
    json!({ "name": name, "in": place, "required": place == "path", "schema": { "type": "string" } })
}

fn shown(what: &str) -> Value {
    json!({ "description": what, "content": { "application/json": {} } })
}

fn reference(what: &str, kind: &str, schema: &str) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
    json!({ "description": what, "content": { kind: { "schema": schema } } })
}

fn refused() -> Value {
    reference("refused", "application/problem+json", "Problem")
}

fn asking(what: &str) -> Value {
    json!({ "responses": { "200": shown(what), "default": refused() } })
}

fn reading() -> Value {
    json!({ "responses": { "200": shown("as the file has it, with the ETag"), "default": refused() } })
}

fn action() -> Value {
    let done = reference("done", "application/json", "Done");
    let pending = reference("accepted, and not complete yet", "application/json", "Pending");
    json!({ "responses": { "200": done, "202": pending, "default": refused() } })
}

fn writing(has_body: bool) -> Value {
    let mut operation = action();
    let query = json!({ "name": "dry_run", "in": "query", "schema": { "type": "boolean" } });
    operation["parameters"] =
        json!([parameter("If-Match", "header"), parameter("If-None-Match", "header"), query]);
    if has_body {
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": {} } });
    }
    operation
}
