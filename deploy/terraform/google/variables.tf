variable "project" {
  description = "Google Cloud project of the OAuth client. Gmail publishes only to topics of the same project."
  type        = string
}

variable "delivery" {
  description = "How notifications arrive: Pub/Sub pushes them to the public URL (push), or workers pull them (pull)."
  type        = string
  default     = "push"

  validation {
    condition     = contains(["push", "pull"], var.delivery)
    error_message = "Choose push or pull."
  }
}

variable "public_url" {
  description = "POSTROOM_PUBLIC_URL, such as https://postroom.example.com. Required for push."
  type        = string
  default     = ""

  validation {
    condition     = var.public_url == "" || can(regex("^https://[^/]+$", var.public_url))
    error_message = "Pub/Sub pushes to https only. Give the URL without a path."
  }
}
