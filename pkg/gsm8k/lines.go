package gsm8k

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLineBytes bounds one line of a JSONL file. GSM8K's longest has 1743 bytes;
// the bound keeps a file without line ends from filling the memory.
const maxLineBytes = 16 << 20

var utf8BOM = []byte("\xef\xbb\xbf")

// lineReader splits a stream at "\n" and nothing else: JSON strings may hold raw
// U+2028, which other readers take for a line end. A "\r" before "\n" and a byte
// order mark at the start are dropped.
type lineReader struct {
	r     *bufio.Reader
	limit int
	line  int // 1-based number of the line last returned
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns the next line, valid until the following call. tooLong says that
// the line exceeded the limit and was passed over. The error is io.EOF after the
// last line.
func (l *lineReader) next() (text []byte, tooLong bool, err error) {
	var long []byte
	for {
		chunk, err := l.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		if errors.Is(err, io.EOF) && len(chunk) == 0 && len(long) == 0 && !tooLong {
			return nil, false, io.EOF
		}
		if tooLong = tooLong || len(long)+len(chunk) > l.limit; tooLong {
			long = nil
		} else if err == nil && long == nil {
			text = chunk
		} else {
			long = append(long, chunk...)
			text = long
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	l.line++
	if tooLong {
		return nil, true, nil
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if l.line == 1 {
		text = bytes.TrimPrefix(text, utf8BOM)
	}
	return text, false, nil
}
