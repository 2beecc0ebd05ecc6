// Command pulumi-resource-kubernetes is Pulumi's Kubernetes provider, built from its Go module.
//
// The provider's own main embeds generated files that its module does not carry, so the schema and the
// Terraform mapping are read from the module's folder when the binary is built and embedded here.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var terraformMapping []byte

func main() { provider.Serve("kubernetes", version.Version, schema, terraformMapping) }
