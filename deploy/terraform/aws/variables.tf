variable "name" {
  description = "Name of everything that this creates, and the first part of the name of the bucket."
  type        = string
  default     = "postroom"
}

variable "assume_role_policy" {
  description = "Who may assume Postroom's role, as JSON: the service account of the pods, an EC2 instance."
  type        = string
}

variable "vpc_id" {
  description = "VPC of the database."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets of the database, in at least two availability zones."
  type        = list(string)
}

variable "client_security_group_ids" {
  description = "Security groups of the machines or pods that run Postroom."
  type        = list(string)
}

variable "instance_class" {
  description = "Size of the database."
  type        = string
  default     = "db.t4g.medium"
}

variable "storage_gb" {
  description = "Initial disk of the database; it grows up to ten times of this."
  type        = number
  default     = 50
}
