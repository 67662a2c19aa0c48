output "settings" {
  description = "Settings of Postroom that are not secret."
  value = merge(
    {
      POSTROOM_PUBSUB_TOPIC        = google_pubsub_topic.gmail.id
      POSTROOM_PUBSUB_SUBSCRIPTION = google_pubsub_subscription.postroom.id
    },
    local.pushes ? {
      POSTROOM_PUBLIC_URL             = var.public_url
      POSTROOM_PUBSUB_AUDIENCE        = local.push_endpoint
      POSTROOM_PUBSUB_SERVICE_ACCOUNT = google_service_account.postroom.email
    } : { POSTROOM_PUBSUB_DELIVERY = "pull" },
  )
}

output "secret_settings" {
  description = "Secret settings of Postroom."
  sensitive   = true
  value       = local.pushes ? { POSTROOM_PUBSUB_TOKEN = random_password.token.result } : {}
}

output "service_account" {
  description = "The account that signs pushes, or pulls."
  value       = google_service_account.postroom.email
}
