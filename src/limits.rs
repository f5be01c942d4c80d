//! Every bound of the server in one place, each named with its unit.
