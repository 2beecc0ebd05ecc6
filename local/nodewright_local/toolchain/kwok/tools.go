//go:build tools

// Package tools pins kwok, the simulated kubelet of the laptop cluster.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
