output "settings" {
  description = "Settings of Postroom that are not secret. The URLs of the database contain passwords that you choose."
  value = {
    POSTROOM_BLOBS       = "s3://${aws_s3_bucket.postroom.bucket}/blobs"
    POSTROOM_ARCHIVE     = "s3://${aws_s3_bucket.postroom.bucket}/archive"
    POSTROOM_VAULT       = "ssm"
    POSTROOM_SSM_PREFIX  = "/${var.name}"
    POSTROOM_SSM_KMS_KEY = aws_kms_alias.vault.name
    POSTROOM_QUEUE       = "sqs:${aws_sqs_queue.documents.url}"
  }
}

output "role_arn" {
  description = "The role of Postroom's processes, such as for serviceAccount.annotations of the Helm chart."
  value       = aws_iam_role.postroom.arn
}

output "database_address" {
  description = "Host and port of PostgreSQL."
  value       = aws_db_instance.postroom.endpoint
}

output "database_administrator_secret_arn" {
  description = "Secret with the password of the administrator, who creates the database and its two roles."
  value       = aws_db_instance.postroom.master_user_secret[0].secret_arn
}
