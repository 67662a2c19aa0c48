"""Gmail: OAuth at Google, the Gmail API, push by Cloud Pub/Sub."""
