// Command grpo runs experiments in reinforcement learning from verifiable
// rewards (GRPO and its relatives) on small language models.
package main

import (
	"os"

	"grpo/cmd"
)

func main() { os.Exit(cmd.Main()) }
