# What Gmail needs in order to notify Postroom. The OAuth client and its consent screen have no API: docs/how-to/google.md.
provider "google" {
  project = var.project
}

locals {
  pushes        = var.delivery == "push"
  push_endpoint = "${var.public_url}/webhooks/gmail"
}

resource "google_project_service" "required" {
  for_each           = toset(["gmail.googleapis.com", "pubsub.googleapis.com"])
  service            = each.value
  disable_on_destroy = false
}

resource "google_pubsub_topic" "gmail" {
  name       = "gmail"
  depends_on = [google_project_service.required]
}

resource "google_pubsub_topic_iam_member" "gmail_publishes" {
  topic  = google_pubsub_topic.gmail.id
  role   = "roles/pubsub.publisher"
  member = "serviceAccount:gmail-api-push@system.gserviceaccount.com"
}

# Push: Pub/Sub signs each request as this account, which needs no role. Pull: workers read the subscription with it.
resource "google_service_account" "postroom" {
  account_id   = "postroom-${var.delivery}"
  display_name = local.pushes ? "Signs Pub/Sub pushes to Postroom" : "Pulls notifications for Postroom"
}

resource "random_password" "token" {
  length  = 48
  special = false
}

resource "google_pubsub_subscription" "postroom" {
  name                 = "postroom"
  topic                = google_pubsub_topic.gmail.id
  ack_deadline_seconds = 10

  # Otherwise a subscription without traffic is deleted after 31 days.
  expiration_policy {
    ttl = ""
  }

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  dynamic "push_config" {
    for_each = local.pushes ? [local.push_endpoint] : []
    content {
      push_endpoint = "${push_config.value}?token=${random_password.token.result}"

      oidc_token {
        service_account_email = google_service_account.postroom.email
        audience              = push_config.value
      }
    }
  }

  lifecycle {
    precondition {
      condition     = !local.pushes || var.public_url != ""
      error_message = "Set public_url, or delivery = \"pull\"."
    }
  }
}

resource "google_pubsub_subscription_iam_member" "postroom_pulls" {
  count        = local.pushes ? 0 : 1
  subscription = google_pubsub_subscription.postroom.id
  role         = "roles/pubsub.subscriber"
  member       = google_service_account.postroom.member
}
