"""The REST API of Cloud Pub/Sub, as far as programs that receive Gmail's notifications need it."""
