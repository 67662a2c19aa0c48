output "settings" {
  description = "Settings of Postroom that are not secret."
  value = {
    POSTROOM_PUBLIC_URL          = var.public_url
    POSTROOM_MICROSOFT_CLIENT_ID = azuread_application.sign_in.client_id
    POSTROOM_MICROSOFT_TENANT    = local.tenants[var.accounts]
  }
}

output "secret_settings" {
  description = "Secret settings of Postroom."
  sensitive   = true
  value       = { POSTROOM_MICROSOFT_CLIENT_SECRET = azuread_application_password.sign_in.value }
}

output "app_only" {
  description = "Options of `postroom mailboxes connect outlook --app-only`."
  value = var.app_only ? {
    tenant    = data.azuread_client_config.current.tenant_id
    client_id = azuread_application.app_only[0].client_id
  } : null
}
