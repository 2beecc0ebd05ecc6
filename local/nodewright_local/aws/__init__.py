"""AWS on a laptop: one HTTP endpoint that answers for EC2, EKS, IAM, SQS and their neighbours.

moto keeps the resources that it models well (VPCs, IAM, SQS, EventBridge, launch templates).
This package answers in front of it wherever moto is missing or would mislead an autoscaler:
fleets with real capacity pools, prices, image parameters, EKS access, instance life and events.
`nodewright_local.aws.__main__` is the process; tests start `nodewright_local.aws.server` in-process.
"""
