//! Checks of `Host` and `Origin`, which keep web pages from using a server on the browser's
//! machine.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::{AppState, HttpOptions, error::ApiError};

/// Headers that pages of other origins may read.
const EXPOSED: [HeaderName; 10] = [
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-stemma-continuation"),
    HeaderName::from_static("x-stemma-warm"),
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
    header::RETRY_AFTER,
];

/// Allows cross-origin calls from the configured origins.
pub(super) fn cors(options: &HttpOptions) -> CorsLayer {
    let any = options.cors_origins.iter().any(|origin| origin == "*");
    let origins = match any {
        true => AllowOrigin::any(),
        false => {
            let origins = options.cors_origins.iter();
            AllowOrigin::list(origins.filter_map(|origin| HeaderValue::from_str(origin).ok()))
        }
    };
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED)
        .max_age(std::time::Duration::from_secs(3600))
}

/// On loopback, rejects requests that a web page made a browser send: those for another host name,
/// which DNS can point to this machine, and those from pages of other origins.
pub(super) async fn check(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let Some(hosts) = &state.options.hosts else {
        return next.run(request).await;
    };
    if !host_is_fit(request.headers(), request.uri(), hosts) {
        return ApiError::foreign_host().into_response();
    }
    if !origin_is_fit(request.headers(), &state.options.cors_origins) {
        return ApiError::foreign_origin().into_response();
    }
    next.run(request).await
}

/// A request without a host does not come from a browser.
fn host_is_fit(headers: &HeaderMap, uri: &Uri, hosts: &[String]) -> bool {
    let mut named = headers.get_all(header::HOST).iter();
    let authority = match (named.next(), named.next()) {
        (None, _) => uri.authority().cloned(),
        (Some(only), None) => match Authority::try_from(only.as_bytes()) {
            Ok(authority) => Some(authority),
            Err(_) => return false,
        },
        (Some(_), Some(_)) => return false,
    };
    authority.is_none_or(|authority| is_local(authority.host(), hosts))
}

fn origin_is_fit(headers: &HeaderMap, cors_origins: &[String]) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    origins.all(|origin| {
        let listed = |allowed: &String| allowed == "*" || origin == allowed.as_str();
        let uri = Uri::try_from(origin.as_bytes()).ok();
        let host = uri.as_ref().and_then(Uri::host);
        cors_origins.iter().any(listed) || host.is_some_and(|host| is_local(host, &[]))
    })
}

fn is_local(host: &str, hosts: &[String]) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = address
        .parse()
        .is_ok_and(|address: IpAddr| address.is_loopback());
    is_loopback
        || host.eq_ignore_ascii_case("localhost")
        || hosts
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_str(value).expect("a value");
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn only_names_of_this_machine_are_hosts_of_it() {
        let fits = |values: &[&str]| {
            let allowed = ["models.example".to_owned()];
            host_is_fit(&headers(&header::HOST, values), &Uri::default(), &allowed)
        };
        for host in [
            "localhost",
            "LocalHost:80",
            "127.0.0.1:8080",
            "127.8.8.8",
            "[::1]:8080",
            "models.example:443",
        ] {
            assert!(fits(&[host]), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "a b",
        ] {
            assert!(!fits(&[host]), "{host}");
        }
        assert!(fits(&[]));
        assert!(!fits(&["localhost", "localhost"]));
    }

    #[test]
    fn only_pages_of_this_machine_and_named_ones_call_it() {
        let fits = |values: &[&str], cors: &str| {
            origin_is_fit(&headers(&header::ORIGIN, values), &[cors.to_owned()])
        };
        assert!(fits(&[], "https://a.example"));
        assert!(fits(&["http://localhost:3000"], "https://a.example"));
        assert!(fits(&["https://a.example"], "https://a.example"));
        assert!(fits(&["https://evil.example"], "*"));
        for origin in [
            "https://evil.example",
            "null",
            "http://a.example",
            "https://a.example.evil",
        ] {
            assert!(!fits(&[origin], "https://a.example"), "{origin}");
        }
    }
}
