//! `/openapi.json`: describes every route, and nothing else.

use std::fs;

use reqwest::Method;
use serde_json::{Map, Value};

use crate::support::{Setup, TestApp};

async fn contract(app: &TestApp) -> Value {
    let answer = app.get("/openapi.json").await;
    assert_eq!(answer.status(), 200);
    answer.json().await.expect("JSON")
}

fn paths(contract: &Value) -> &Map<String, Value> {
    contract["paths"].as_object().expect("paths")
}

/// Collects the targets of all `$ref`s in the document.
fn references(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(to)) = map.get("$ref") {
                into.push(to.clone());
            }
            map.values().for_each(|value| references(value, into));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

#[tokio::test]
async fn a_change_of_the_contract_shows() {
    let app = Setup::default().start().await;
    let contract = contract(&app).await;
    insta::assert_json_snapshot!(contract, {".info.version" => "…"});
}

#[tokio::test]
async fn all_references_resolve() {
    let app = Setup::default().start().await;
    let contract = contract(&app).await;
    let mut found = Vec::new();
    references(&contract, &mut found);
    assert!(found.len() > 50, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a place in here");
        assert!(contract.pointer(pointer).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn every_operation_is_a_route() {
    let app = Setup::default().start().await;
    let contract = contract(&app).await;
    for (path, operations) in paths(&contract) {
        for (method, operation) in operations.as_object().expect("operations") {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
            let url = format!("{}{}", app.url, path.replace("{id}", "none"));
            let answer = app.client.request(method.clone(), url).send().await;
            let answer = answer.expect("an answer");
            let status = answer.status().as_u16().to_string();
            assert!(
                operation["responses"].get(&status).is_some(),
                "{method} {path} answers {status}"
            );
            let body = answer.text().await.expect("a body");
            assert!(!body.contains("There is no route"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn every_route_is_described() {
    let app = Setup::default().start().await;
    let contract = contract(&app).await;
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/router.rs");
    let table = fs::read_to_string(table).expect("the route table");
    let mut routes = Vec::new();
    for after in table.split(".route(").skip(1) {
        let route = after.split('"').nth(1).expect("a path");
        routes.push(route.replace("{*", "{"));
    }
    assert!(routes.len() > 10, "{routes:?}");
    for route in routes {
        let there = [route.clone(), format!("/v1{route}")];
        let known = |path: &String| paths(&contract).contains_key(path);
        assert!(there.iter().any(known), "{route} is not in the document");
    }
}
