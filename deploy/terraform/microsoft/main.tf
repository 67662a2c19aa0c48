# The registrations that Postroom needs in Microsoft Entra. Restrict the app-only one in Exchange: docs/how-to/microsoft.md.
data "azuread_client_config" "current" {}

data "azuread_application_published_app_ids" "well_known" {}

resource "azuread_service_principal" "graph" {
  client_id    = data.azuread_application_published_app_ids.well_known.result["MicrosoftGraph"]
  use_existing = true
}

locals {
  delegated   = ["openid", "profile", "email", "offline_access", var.only_metadata ? "Mail.ReadBasic" : "Mail.Read"]
  application = [var.only_metadata ? "Mail.ReadBasic.All" : "Mail.Read", "User.Read.All"]
  tenants = {
    AzureADMyOrg                       = data.azuread_client_config.current.tenant_id
    AzureADMultipleOrgs                = "organizations"
    AzureADandPersonalMicrosoftAccount = "common"
  }
}

# By sign-in: the owner of each mailbox consents.
resource "azuread_application" "sign_in" {
  display_name     = "Postroom"
  sign_in_audience = var.accounts

  api {
    requested_access_token_version = 2
  }

  web {
    redirect_uris = ["${var.public_url}/oauth/outlook/callback"]
  }

  required_resource_access {
    resource_app_id = azuread_service_principal.graph.client_id

    dynamic "resource_access" {
      for_each = local.delegated
      content {
        id   = azuread_service_principal.graph.oauth2_permission_scope_ids[resource_access.value]
        type = "Scope"
      }
    }
  }
}

# Lasts 180 days. To replace it: terraform apply -replace=azuread_application_password.sign_in
resource "azuread_application_password" "sign_in" {
  application_id = azuread_application.sign_in.id
  display_name   = "Postroom"
  end_date       = timeadd(plantimestamp(), "4320h")

  lifecycle {
    ignore_changes = [end_date]
  }
}

# App-only: an administrator consents once for the mailboxes of this tenant.
resource "azuread_application" "app_only" {
  count        = var.app_only ? 1 : 0
  display_name = "Postroom, app-only"

  required_resource_access {
    resource_app_id = azuread_service_principal.graph.client_id

    dynamic "resource_access" {
      for_each = local.application
      content {
        id   = azuread_service_principal.graph.app_role_ids[resource_access.value]
        type = "Role"
      }
    }
  }
}

resource "azuread_service_principal" "app_only" {
  count     = var.app_only ? 1 : 0
  client_id = azuread_application.app_only[0].client_id
}

# The consent of the administrator who applies this.
resource "azuread_app_role_assignment" "app_only" {
  for_each            = var.app_only ? toset(local.application) : []
  app_role_id         = azuread_service_principal.graph.app_role_ids[each.value]
  principal_object_id = azuread_service_principal.app_only[0].object_id
  resource_object_id  = azuread_service_principal.graph.object_id
}

resource "azuread_application_certificate" "app_only" {
  count          = var.app_only && var.certificate != "" ? 1 : 0
  application_id = azuread_application.app_only[0].id
  type           = "AsymmetricX509Cert"
  encoding       = "pem"
  value          = var.certificate
}
