//! Between the JSON of the APIs and the domain; pure functions only.
