# The owner of this server creates the roles of Postroom: docs/how-to/database.md.
resource "aws_db_subnet_group" "postroom" {
  name       = var.name
  subnet_ids = var.subnet_ids
}

resource "aws_security_group" "database" {
  name        = "${var.name}-database"
  description = "PostgreSQL for Postroom"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "database" {
  for_each                     = toset(var.client_security_group_ids)
  security_group_id            = aws_security_group.database.id
  referenced_security_group_id = each.value
  from_port                    = 5432
  to_port                      = 5432
  ip_protocol                  = "tcp"
}

resource "aws_db_parameter_group" "postroom" {
  name   = var.name
  family = "postgres17"

  parameter {
    name  = "rds.force_ssl"
    value = "1"
  }
}

resource "aws_db_instance" "postroom" {
  identifier                      = var.name
  engine                          = "postgres"
  engine_version                  = "17"
  instance_class                  = var.instance_class
  allocated_storage               = var.storage_gb
  max_allocated_storage           = var.storage_gb * 10
  storage_type                    = "gp3"
  storage_encrypted               = true
  multi_az                        = true
  username                        = "administrator"
  manage_master_user_password     = true # in Secrets Manager, not in Terraform's state
  db_subnet_group_name            = aws_db_subnet_group.postroom.name
  vpc_security_group_ids          = [aws_security_group.database.id]
  parameter_group_name            = aws_db_parameter_group.postroom.name
  publicly_accessible             = false
  backup_retention_period         = 14
  copy_tags_to_snapshot           = true
  deletion_protection             = true
  final_snapshot_identifier       = "${var.name}-final"
  enabled_cloudwatch_logs_exports = ["postgresql"]
}
