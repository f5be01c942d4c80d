//! The service: what each operation of the API does, independent of HTTP.
