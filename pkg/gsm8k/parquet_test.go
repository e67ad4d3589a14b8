package gsm8k

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"grpo/internal/expect"
	"grpo/internal/jsonl"
	"grpo/internal/untrusted"
)

type textRow struct {
	Question string `parquet:"question"`
	Answer   string `parquet:"answer"`
}

// parquetOf writes rows as a Parquet file.
func parquetOf[T any](t testing.TB, options []parquet.WriterOption, rows ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	_, err := w.Write(rows)
	if cerr := w.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	return b.Bytes()
}

func TestParquet(t *testing.T) {
	text := []textRow{{"q", "1+1=<<1+1=2>>2\n#### 2"}, {"r", "3"}}
	const want = "1 x-00001 q|1+1=<<1+1=2>>2\n#### 2|2; 2 x-00002 r|#### 3|3"
	options := func(o ...parquet.WriterOption) []parquet.WriterOption { return o }
	type mapped[T any] struct {
		Input  string `parquet:"input,dict"`
		Other  []int  `parquet:"other,list"`
		Target T      `parquet:"target"`
	}
	type optional struct {
		Question *string `parquet:"question,optional"`
		Answer   *int64  `parquet:"answer,optional"`
		ID       string  `parquet:"id"`
	}
	type numbered struct {
		Question string `parquet:"question"`
		Answer   string `parquet:"answer"`
		ID       int32  `parquet:"id"`
		Type     int32  `parquet:"type"`
	}
	q, n := "q", int64(7)
	for name, c := range map[string]struct {
		data   []byte
		fields Fields
		want   string
	}{
		"plain":         {parquetOf(t, nil, text...), Fields{}, want},
		"snappy":        {parquetOf(t, options(parquet.Compression(&parquet.Snappy)), text...), Fields{}, want},
		"zstd":          {parquetOf(t, options(parquet.Compression(&parquet.Zstd), parquet.DataPageVersion(1)), text...), Fields{}, want},
		"row groups":    {parquetOf(t, options(parquet.MaxRowsPerRowGroup(1)), text...), Fields{}, want},
		"small pages":   {parquetOf(t, options(parquet.PageBufferSize(1)), text...), Fields{}, want},
		"integers":      {parquetOf(t, nil, mapped[int32]{"q", []int{1, 2}, -5}), Fields{Question: "input", Answer: "target"}, "1 x-00001 q|#### -5|-5"},
		"unsigned":      {parquetOf(t, nil, mapped[uint64]{"q", nil, 1<<64 - 1}), Fields{Question: "input", Answer: "target"}, "1 x-00001 q|#### 18446744073709551615|18446744073709551615"},
		"floats":        {parquetOf(t, nil, mapped[float64]{"q", nil, 0.5}, mapped[float64]{"r", nil, 1e20}), Fields{Question: "input", Answer: "target"}, "1 x-00001 q|#### 0.5|0.5; 2 x-00002 r|#### 100000000000000000000|100000000000000000000"},
		"single floats": {parquetOf(t, nil, mapped[float32]{"q", nil, 0.1}), Fields{Question: "input", Answer: "target"}, "1 x-00001 q|#### 0.1|0.1"},
		"optional":      {parquetOf(t, nil, optional{&q, &n, "own"}), Fields{}, "1 own q|#### 7|7"},
		"numbered":      {parquetOf(t, nil, numbered{"q", "7", 12, 3}), Fields{}, "1 12 q|#### 7|7"},
	} {
		for _, file := range []string{"x.parquet", "x"} {
			problems, _, err := ReadFile(named(t, file, c.data), ReadOptions{Fields: c.fields})
			if got := show(problems); got != c.want || err != nil {
				t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
			}
		}
	}
	// A row without a value can be skipped.
	data := parquetOf(t, nil, optional{&q, &n, ""}, optional{nil, &n, ""}, optional{&q, nil, ""})
	path := named(t, "x.parquet", data)
	if _, _, err := ReadFile(path, ReadOptions{}); err == nil || !strings.HasSuffix(err.Error(), path+`: row 2: "question" is null, want a string (pass --skip-bad to count and skip such rows)`) {
		t.Errorf("error %v", err)
	}
	if problems, report, err := ReadFile(path, ReadOptions{SkipBad: true}); err != nil || len(problems) != 1 || report.Skipped != 2 || !strings.HasPrefix(report.FirstBad, "row 2: ") {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestParquetErrors(t *testing.T) {
	type number struct {
		Question int64  `parquet:"question"`
		Answer   string `parquet:"answer"`
	}
	type date struct {
		Question string    `parquet:"question"`
		Answer   time.Time `parquet:"answer,timestamp"`
	}
	type decimal struct {
		Question string `parquet:"question"`
		Answer   int64  `parquet:"answer,decimal(2:9)"`
	}
	type nested struct {
		Question struct{ Text string } `parquet:"question"`
		Answer   string                `parquet:"answer"`
	}
	type list struct {
		Question []string `parquet:"question"`
		Answer   string   `parquet:"answer"`
	}
	type truth struct {
		Question string `parquet:"question"`
		Answer   bool   `parquet:"answer"`
	}
	type other struct {
		Input string `parquet:"input"`
	}
	type bytesRow struct {
		Question []byte `parquet:"question"`
		Answer   string `parquet:"answer"`
	}
	good := parquetOf(t, nil, textRow{"q", "1"}, textRow{"r", "2"})
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"other fields":     {parquetOf(t, nil, other{"q"}), `no "question", "answer": its fields are "input"; a problem in GSM8K's form has "question", "answer" (rename the fields, or name them with data.fields; "grpo data stats" has --fields)`},
		"a number":         {parquetOf(t, nil, number{1, "1"}), `column "question" is INT(64,true); want strings`},
		"a date":           {parquetOf(t, nil, date{"q", time.Unix(0, 0)}), `column "answer" is TIMESTAMP`},
		"a decimal":        {parquetOf(t, nil, decimal{"q", 1}), `column "answer" is DECIMAL(9,2); want strings, numbers or booleans`},
		"a nested column":  {parquetOf(t, nil, nested{Answer: "1"}), `column "question" is nested; want strings`},
		"a list":           {parquetOf(t, nil, list{[]string{"q"}, "1"}), `column "question" is a list; want strings`},
		"truth values":     {parquetOf(t, nil, truth{"q", true}), `row 1: "answer" is a boolean, want a string or a number`},
		"bad UTF-8":        {parquetOf(t, nil, bytesRow{[]byte("q\xff"), "1"}), `row 1: not valid UTF-8`},
		"a huge value":     {parquetOf(t, nil, textRow{strings.Repeat("x", jsonl.MaxLine+1), "1"}), `column "question": longer than 16 MiB`},
		"no rows":          {parquetOf[textRow](t, nil), `the file has no problems`},
		"cut at the end":   {good[:len(good)-9], `damaged or not Parquet: it does not end in PAR1 (is the download complete?)`},
		"cut at the start": {good[20:], `damaged or not Parquet: invalid magic header`},
		"nothing":          {nil, `damaged or not Parquet: it has 0 bytes`},
		"a text":           {[]byte("question,answer\nq,1\n"), `it does not end in PAR1`},
		"a huge footer":    {append(bytes.Clone(good[:len(good)-8]), "\xff\xff\xff\x7fPAR1"...), `its footer has 2147483647 bytes`},
	} {
		path := named(t, "x.parquet", c.data)
		_, _, err := ReadFile(path, ReadOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "read problems: "+path+": ") || strings.Contains(err.Error(), "\n") ||
			strings.Count(err.Error(), "read problems") != 1 {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	// Whatever byte is wrong, and wherever the file is cut: problems or one line.
	for i := 0; i < len(good); i += 3 {
		for _, data := range [][]byte{good[:i], append(append(bytes.Clone(good[:i]), good[i]^0x55), good[i+1:]...)} {
			if _, _, err := readParquet(bytes.NewReader(data), int64(len(data)), "x", ReadOptions{}); err != nil {
				untrusted.CheckError(t, err)
			}
		}
	}
}

// Without a column that the answer is made from, the problems would be others.
func TestParquetOfOtherAnswers(t *testing.T) {
	type countdown[N any] struct {
		Numbers N    `parquet:"numbers"`
		Target  int  `parquet:"target"`
		UseAll  bool `parquet:"use_all"`
	}
	type lists struct {
		Nums   []int `parquet:"nums,list"`
		Target int   `parquet:"target"`
	}
	type choice struct {
		Question string                         `parquet:"question"`
		Answer   string                         `parquet:"answer"`
		Choices  struct{ Text, Label []string } `parquet:"choices"`
	}
	type truth struct {
		Question string `parquet:"question"`
		Answer   bool   `parquet:"answer"`
	}
	for _, c := range []struct {
		kind Kind
		data []byte
		want string // gold, or the error
	}{
		{KindCountdown, parquetOf(t, nil, countdown[string]{"2 3 4", 6, false}), "6 from some of 2 3 4"},
		{KindCountdown, parquetOf(t, nil, countdown[string]{"2 3", 6, true}), "6 from 2 3"},
		{KindCountdown, parquetOf(t, nil, countdown[[]int]{[]int{2, 3}, 6, true}), `column "numbers" is a list; write such a file as JSONL`},
		{KindCountdown, parquetOf(t, nil, lists{[]int{2, 3}, 6}), `column "nums" is nested; write such a file as JSONL`},
		{KindChoice, parquetOf(t, nil, choice{Question: "q", Answer: "A"}), `column "choices" is nested; write such a file as JSONL`},
		{KindText, parquetOf(t, nil, truth{"q", true}, truth{"r", false}), "true"},
	} {
		opt := ReadOptions{Answers: answersOf(t, AnswerOptions{Kind: c.kind})}
		problems, _, err := ReadFile(named(t, "x.parquet", c.data), opt)
		if err != nil && !strings.HasSuffix(err.Error(), ": "+c.want) || err == nil && problems[0].Gold != c.want {
			t.Errorf("%s: %+v, %v, want %s", c.kind, problems, err, c.want)
		}
	}
}

// Files of Apache Arrow, the usual writer.
func TestParquetOfArrow(t *testing.T) {
	const script = `
import sys, pyarrow as pa, pyarrow.parquet as pq
for codec in ["none", "snappy", "gzip", "zstd", "brotli", "lz4"]:
    t = pa.table({"question": ["q%d" % (i % 50) for i in range(5000)], "answer": pa.array(range(5000), pa.int32())})
    pq.write_table(t, sys.argv[1] + "/" + codec + ".parquet", compression=codec, row_group_size=1500, data_page_size=1000)
`
	dir := t.TempDir()
	out, err := exec.Command("python3", "-c", script, dir).CombinedOutput()
	if err != nil {
		t.Skipf("python3 with pyarrow is not here: %v %.100s", err, out)
	}
	for _, codec := range []string{"none", "snappy", "gzip", "zstd", "brotli", "lz4"} {
		problems, _, err := ReadFile(dir+"/"+codec+".parquet", ReadOptions{})
		if err != nil || len(problems) != 5000 || problems[4999].Question != "q49" || problems[4999].Gold != "4999" {
			t.Errorf("%s: %d problems, %v", codec, len(problems), err)
		}
	}
}

func FuzzReadParquet(f *testing.F) {
	rows := []textRow{{"q", "1"}, {"r", "#### 2"}}
	f.Add(parquetOf(f, nil, rows...))
	f.Add(parquetOf(f, []parquet.WriterOption{parquet.Compression(&parquet.Snappy), parquet.DataPageVersion(1)}, rows...))
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		problems, report, err := readParquet(bytes.NewReader(data), int64(len(data)), "x", ReadOptions{SkipBad: true})
		if err != nil {
			untrusted.CheckError(t, err)
		} else if report.Problems != len(problems) || len(problems) == 0 {
			t.Fatalf("%+v of %d problems", report, len(problems))
		}
	})
}

func FuzzReadCSV(f *testing.F) {
	f.Add([]byte("question,answer\nq,1\n\"r\nr\",\"#### 2\"\n"))
	f.Add([]byte("\xef\xbb\xbfanswer,question,answer\r\n\"\n"))
	f.Add([]byte("question,answer\n\x1b[31m,\x1b\nq,1,2\n\"q\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		untrusted.Reader.Check(t, len(data), func() {
			problems, report, err := readCSV(bytes.NewReader(data), "x", ReadOptions{SkipBad: true})
			if err != nil {
				untrusted.CheckError(t, err)
			} else if report.Problems != len(problems) || report.Lines != report.Problems+report.Skipped {
				t.Fatalf("%+v of %d problems", report, len(problems))
			}
		})
	})
}

// A few bytes in a file, or in a pipe without an end, take some hundred in memory.
func TestRecordsAreBounded(t *testing.T) {
	long := Problem{Question: strings.Repeat("q", 1<<10), Answer: "1"}
	for name, c := range map[string]*collector{
		"records": {unit: "line", report: ReadReport{Lines: maxRecords - 1}},
		"text":    {unit: "line", text: maxText - 1500},
	} {
		if err := c.add(long, 1, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.add(long, 2, nil); err == nil || !strings.Contains(err.Error(), "line 2: more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
	type row struct {
		Question string `parquet:"question,dict"`
		Answer   string `parquet:"answer,dict"`
	}
	data := parquetOf(t, []parquet.WriterOption{parquet.PageBufferSize(64 << 20)}, slices.Repeat([]row{{"q", "1"}}, maxRecords+1)...)
	_, _, err := readParquet(bytes.NewReader(data), int64(len(data)), "x", ReadOptions{})
	expect.Error(t, err, "more than 4194304 rows")
}
