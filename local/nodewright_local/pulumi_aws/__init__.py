"""The AWS provider that the Pulumi engine loads on a laptop: `pulumi-resource-aws` over boto3.

The real provider plugin is a large Go program; the laptop cluster needs only the resource types of
our own components. This package answers the provider protocol for those, against whatever endpoint
`AWS_ENDPOINT_URL` names. A type or a property it does not know is refused by name, never ignored.
"""
