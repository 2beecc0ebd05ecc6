"""What the EBS CSI driver does on EKS: EC2 volumes for claims, and their attachments.

The volumes are real in the AWS stand-in; there is no disk behind them. Binding claims to volumes,
asking for attachments and asking for their end is Kubernetes' own controllers' matter, as on EKS.
"""
