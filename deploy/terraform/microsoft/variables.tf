variable "public_url" {
  description = "POSTROOM_PUBLIC_URL, such as https://postroom.example.com."
  type        = string

  validation {
    condition     = can(regex("^https://[^/]+$", var.public_url))
    error_message = "Microsoft calls https only. Give the URL without a path."
  }
}

variable "only_metadata" {
  description = "Every mailbox has the content policy metadata: ask for permissions that reveal no bodies."
  type        = bool
  default     = false
}

variable "app_only" {
  description = "Register a second application that reads mailboxes without a sign-in of their owners."
  type        = bool
  default     = false
}

variable "accounts" {
  description = "Who may sign in: AzureADMyOrg, AzureADMultipleOrgs or AzureADandPersonalMicrosoftAccount."
  type        = string
  default     = "AzureADMyOrg"

  validation {
    condition = contains(
      ["AzureADMyOrg", "AzureADMultipleOrgs", "AzureADandPersonalMicrosoftAccount"], var.accounts
    )
    error_message = "Name one of the three audiences."
  }
}

variable "certificate" {
  description = "PEM certificate of the app-only application; its private key stays with Postroom."
  type        = string
  default     = ""
}
