// Command karpenter-parity runs Karpenter's own scheduler on worlds given as JSON values on
// standard input, one after the other, and prints each decision as one line of JSON.
//
// It only calls what Karpenter exports. Worlds are written by tests/parity/wire.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "karpenter-parity:", err)
		os.Exit(1)
	}
}

func answer(in io.Reader, out io.Writer) error {
	ctx := log.IntoContext(context.Background(), logr.Discard())
	worlds := json.NewDecoder(bufio.NewReaderSize(in, 1<<20))
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	for {
		var world World
		if err := worlds.Decode(&world); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a world: %w", err)
		}
		for range max(1, world.Runs) {
			if err := encoder.Encode(decide(ctx, &world)); err != nil {
				return err
			}
		}
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}
