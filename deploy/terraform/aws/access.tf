# What Postroom's processes may do, and nothing else.
data "aws_partition" "current" {}

data "aws_region" "current" {}

data "aws_caller_identity" "current" {}

resource "aws_iam_role" "postroom" {
  name               = var.name
  assume_role_policy = var.assume_role_policy
}

resource "aws_iam_role_policy" "postroom" {
  name   = var.name
  role   = aws_iam_role.postroom.id
  policy = data.aws_iam_policy_document.postroom.json
}

data "aws_iam_policy_document" "postroom" {
  statement {
    sid       = "ListBlobs"
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.postroom.arn]
  }

  statement {
    sid       = "Blobs"
    actions   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    resources = ["${aws_s3_bucket.postroom.arn}/*"]
  }

  statement {
    sid     = "Vault"
    actions = ["ssm:PutParameter", "ssm:GetParameter", "ssm:DeleteParameter"]
    resources = [
      "arn:${data.aws_partition.current.partition}:ssm:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:parameter/${var.name}/*"
    ]
  }

  statement {
    sid       = "VaultKey"
    actions   = ["kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey"]
    resources = [aws_kms_key.vault.arn]

    condition {
      test     = "StringEquals"
      variable = "kms:ViaService"
      values   = ["ssm.${data.aws_region.current.id}.amazonaws.com"]
    }
  }

  statement {
    sid = "Documents"
    actions = [
      "sqs:SendMessage",
      "sqs:ReceiveMessage",
      "sqs:DeleteMessage",
      "sqs:ChangeMessageVisibility",
      "sqs:GetQueueAttributes",
    ]
    resources = [aws_sqs_queue.documents.arn]
  }
}
