//! HTTP: the route table, thin handlers, extractors, server-sent events and errors.
