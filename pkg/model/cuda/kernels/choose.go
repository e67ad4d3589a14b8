//go:build withcuda

package kernels

// Kernels of [Decoder]: the choice of a token of each row. A step of decoding that is recorded as a
// graph reads its number from step[0]. The caller zeroes step, alive, lengths and ended, and chooses
// token 0 from the logits after the prompts by a launch of Choose. Then each run of the graph has, in
// this order,
//
//  1. the network, which reads the tokens next and their index step[0],
//  2. NextStep, directly before Choose,
//  3. Choose, after which alive[0] is the number of rows that continue.
//
// Rows that have ended keep their last token in next, so the network may compute them too.
const (
	// Choose chooses token t = step[0] of each row from its logits (rows×vocab) by the rule of
	// pkg/model (choose.go) without top-k and top-p: the first token at which the sum of
	// probabilities exceeds uniform[r·most+t] times their total or, if greedy is not 0, the likeliest
	// token, the lowest id on a tie. If t < minTokens the end tokens (ends of them) have probability
	// 0. It skips rows with ended[r] ≠ 0.
	//
	// Log-probability and entropy are those of softmax(logits·inv) over all tokens, with the bits of
	// [HeadForward] for large vocabularies. It writes tokens[r·most+t], and logps and entropies
	// likewise, lengths[r] = t+1, next[r] = the token, and ended[r] = 1 after an end token and if
	// t+1 = most. It adds the number of rows that it did not end to alive[0].
	//
	// inv is 1/temperature, 1 if greedy. entropies may be NULL, and so may uniform if greedy. The
	// token of a row with NaN or +Inf is any of the vocabulary.
	//
	//	choose(int rows, int vocab, const float* logits, float inv, int minTokens, int most, int greedy,
	//	    const int* end, int ends, const double* uniform, const int* step, int* tokens, float* logps,
	//	    float* entropies, int* lengths, int* ended, int* next, int* alive)
	Choose = "choose"
	// NextStep adds 1 to step[0] and zeroes alive[0].
	//
	//	next_step(int* step, int* alive)
	NextStep = "next_step"
)

// chooseSegment is the number of tokens with a sum in shared memory.
const chooseSegment = 512

// Choose is the launch of [Choose], for vocabularies up to 2 million.
func (c Card) Choose(rows, vocab int) Launch {
	return Launch{Kernel: Choose, Grid: [3]int{rows, 1, 1}, Block: [3]int{rowThreads, 1, 1},
		Shared: rowShared + 8*ceil(vocab, chooseSegment)}
}

// NextStep is the launch of [NextStep].
func (c Card) NextStep() Launch {
	return Launch{Kernel: NextStep, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}
}
