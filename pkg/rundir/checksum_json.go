package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// Some files carry their own checksum: the last member of their JSON object is
//
//	"checksum": "<SHA-256 in hex of the object without this member>"
//
// taken of its compact form, in which white space and the two ways to write <
// (\u003c) make no difference. A digit that changed on the disk, or by hand,
// is then an error and not a wrong number. A file without the member was written
// by an earlier version or by another program, and is read as it is.

var checksumMember = regexp.MustCompile(`,\s*"checksum"\s*:\s*"([0-9a-f]{64})"\s*\}\s*$`)

// errChecksum says that a file's content is not what was written.
var errChecksum = errors.New("it does not match its checksum: the file was damaged or changed")

// MarshalWithChecksum is [Marshal] of a struct with the checksum as the last member.
func MarshalWithChecksum(v any) ([]byte, error) {
	data, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(data[:len(data)-1], `,"checksum":%q}`, objectSum(data)), nil
}

// objectSum hashes an object in compact form.
func objectSum(object []byte) string {
	var compact, escaped bytes.Buffer
	if json.Compact(&compact, object) != nil {
		return "" // not JSON: the decoder reports it
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	sum := sha256.Sum256(escaped.Bytes())
	return hex.EncodeToString(sum[:])
}

// UnmarshalWithChecksum is [Unmarshal], of an object that may carry its checksum.
func UnmarshalWithChecksum(data []byte, v any) error {
	if at := checksumMember.FindSubmatchIndex(data); at != nil {
		body := append(data[:at[0]:at[0]], '}')
		if string(data[at[2]:at[3]]) != objectSum(body) {
			return errChecksum
		}
		data = body
	}
	return Unmarshal(data, v) // anywhere else the member is an unknown key
}

// With the methods below, every writer adds the checksum and every reader checks it.

type (
	plainResult    Result
	plainStatus    Status
	plainChecksums Checksums
)

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (r Result) MarshalJSON() ([]byte, error) { return MarshalWithChecksum(plainResult(r)) }

// UnmarshalJSON implements [json.Unmarshaler]: it is strict, as [Unmarshal], and
// verifies the checksum.
func (r *Result) UnmarshalJSON(data []byte) error {
	return UnmarshalWithChecksum(data, (*plainResult)(r))
}

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (s Status) MarshalJSON() ([]byte, error) { return MarshalWithChecksum(plainStatus(s)) }

// UnmarshalJSON implements [json.Unmarshaler] as that of [Result].
func (s *Status) UnmarshalJSON(data []byte) error {
	return UnmarshalWithChecksum(data, (*plainStatus)(s))
}

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (s Checksums) MarshalJSON() ([]byte, error) { return MarshalWithChecksum(plainChecksums(s)) }

// UnmarshalJSON implements [json.Unmarshaler] as that of [Result].
func (s *Checksums) UnmarshalJSON(data []byte) error {
	return UnmarshalWithChecksum(data, (*plainChecksums)(s))
}
