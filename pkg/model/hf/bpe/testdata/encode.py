"""Prints the ids that the tokenizers library gives to the strings of a golden file."""
import json
import sys

from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(sys.argv[1])
strings = [s["text"] for s in json.load(open(sys.argv[2]))["strings"]]
print(json.dumps([tokenizer.encode(s).ids for s in strings]))
