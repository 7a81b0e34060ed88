//! Request and response types of the Gapless API, and its HTTP client.
