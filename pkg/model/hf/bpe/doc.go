// Package bpe encodes and decodes text with the byte-level BPE tokenizers of
// Hugging Face's tokenizer.json: added tokens, NFC, the pre-tokenizers of GPT-2,
// Llama 3 (cl100k), Qwen and SmolLM2, merges, and the tokens that a template adds.
// Its ids equal those of the tokenizers library. A tokenizer.json with any other
// part is an error, never a guess.
package bpe
