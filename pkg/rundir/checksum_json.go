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

// Some files vouch for themselves: the last member of their JSON object is
//
//	"checksum": "<SHA-256 in hex of the object without this member>"
//
// taken of its compact form, in which white space and the two ways to write <
// (\u003c) make no difference. A digit that changed on the disk, or by hand,
// is then an error where it would have been a figure. A file without the member
// is from before it was written, or from another hand, and is read as it is.

var checksumMember = regexp.MustCompile(`,\s*"checksum"\s*:\s*"([0-9a-f]{64})"\s*\}\s*$`)

// errChecksum says that a file's content is not what was written.
var errChecksum = errors.New("it does not match its checksum: the file was damaged or changed")

// MarshalSealed is [Marshal] of a struct with the checksum as the last member.
func MarshalSealed(v any) ([]byte, error) {
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
		return "" // no JSON, which the decoder will word
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	sum := sha256.Sum256(escaped.Bytes())
	return hex.EncodeToString(sum[:])
}

// UnmarshalSealed is [Unmarshal], of an object that may carry its checksum.
func UnmarshalSealed(data []byte, v any) error {
	if at := checksumMember.FindSubmatchIndex(data); at != nil {
		body := append(data[:at[0]:at[0]], '}')
		if string(data[at[2]:at[3]]) != objectSum(body) {
			return errChecksum
		}
		data = body
	}
	return Unmarshal(data, v) // where the member stands anywhere else, it is an unknown key
}

// The methods below hold for every writer and reader of these files, so that no
// code has to remember the checksum.

type (
	plainResult Result
	plainStatus Status
	plainSeal   Seal
)

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (r Result) MarshalJSON() ([]byte, error) { return MarshalSealed(plainResult(r)) }

// UnmarshalJSON implements [json.Unmarshaler]: it is strict, as [Unmarshal], and
// holds the content to its checksum.
func (r *Result) UnmarshalJSON(data []byte) error {
	return UnmarshalSealed(data, (*plainResult)(r))
}

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (s Status) MarshalJSON() ([]byte, error) { return MarshalSealed(plainStatus(s)) }

// UnmarshalJSON implements [json.Unmarshaler] as that of [Result].
func (s *Status) UnmarshalJSON(data []byte) error {
	return UnmarshalSealed(data, (*plainStatus)(s))
}

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (s Seal) MarshalJSON() ([]byte, error) { return MarshalSealed(plainSeal(s)) }

// UnmarshalJSON implements [json.Unmarshaler] as that of [Result].
func (s *Seal) UnmarshalJSON(data []byte) error {
	return UnmarshalSealed(data, (*plainSeal)(s))
}
