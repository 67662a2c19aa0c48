# The bucket of blobs and archive. It keeps no old versions: what Postroom purges must be gone.
resource "aws_s3_bucket" "postroom" {
  bucket_prefix = "${var.name}-"
}

resource "aws_s3_bucket_public_access_block" "postroom" {
  bucket                  = aws_s3_bucket.postroom.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "postroom" {
  bucket = aws_s3_bucket.postroom.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "postroom" {
  bucket = aws_s3_bucket.postroom.id

  rule {
    id     = "abort-incomplete-uploads"
    status = "Enabled"
    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_policy" "tls_only" {
  bucket     = aws_s3_bucket.postroom.id
  policy     = data.aws_iam_policy_document.tls_only.json
  depends_on = [aws_s3_bucket_public_access_block.postroom]
}

data "aws_iam_policy_document" "tls_only" {
  statement {
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.postroom.arn, "${aws_s3_bucket.postroom.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

# The key of the grants in Systems Manager, POSTROOM_VAULT=ssm.
resource "aws_kms_key" "vault" {
  description         = "Grants of Postroom's mailboxes"
  enable_key_rotation = true
}

resource "aws_kms_alias" "vault" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.vault.key_id
}

# The queue of documents. Messages that name no work move to the second one.
resource "aws_sqs_queue" "documents" {
  name                    = var.name
  sqs_managed_sse_enabled = true

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = 20
  })
}

resource "aws_sqs_queue" "dead_letters" {
  name                      = "${var.name}-dead-letters"
  sqs_managed_sse_enabled   = true
  message_retention_seconds = 1209600
}
