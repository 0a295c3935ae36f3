package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/statedir"
)

// Member is what becomes a member of an archive: a file that does not change, or text.
type Member struct {
	Name string
	Path string // of the file; "" for text
	Text []byte
}

// ListMembers returns what a backup of the state directory dir holds in addition to the identity. state is
// the path of state.db, or of its copy. withLog means that no daemon runs, so that the log of
// state.db belongs to it.
//
// The small files are read at once, because a daemon may replace them meanwhile.
func ListMembers(dir, state string, withLog bool) ([]Member, error) {
	members := []Member{}
	for _, name := range []string{statedir.ConfigName, statedir.TrustName, statedir.TrustCopyName, statedir.RulesName, statedir.RulesCopyName, statedir.RelaysName} {
		text, err := durable.ReadRegularFile(filepath.Join(dir, name), maxBytes[name])
		if errors.Is(err, fs.ErrNotExist) && name != statedir.TrustName {
			continue
		}
		if err != nil {
			return nil, err
		}
		members = append(members, Member{Name: name, Text: text})
	}
	members = append(members, Member{Name: statedir.StateName, Path: state})
	if info, err := os.Stat(state + "-wal"); withLog && err == nil && info.Size() > 0 {
		members = append(members, Member{Name: statedir.StateLogName, Path: state + "-wal"})
	}
	return members, nil
}

// Write writes an archive. It sets the format of m and its list of files. Each file is read twice,
// because the manifest with the hashes comes first. If ctx ends, Write ends with its error.
func Write(ctx context.Context, w io.Writer, m *Manifest, members []Member) error {
	m.Format, m.Files = Format, nil
	for _, member := range members {
		f, err := member.describe(ctx)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
	}
	if err := m.check(); err != nil {
		return err
	}
	text, err := json.Marshal(m, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := m.writeMember(ctx, out, manifestName, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	for i, member := range members {
		if err := member.write(ctx, out, m, m.Files[i]); err != nil {
			return err
		}
	}
	return out.Close()
}

func (m *Member) open() (io.ReadCloser, error) {
	if m.Path == "" {
		return io.NopCloser(bytes.NewReader(m.Text)), nil
	}
	return os.Open(m.Path)
}

// describe returns the size and the hash of a member.
func (m *Member) describe(ctx context.Context) (File, error) {
	r, err := m.open()
	if err != nil {
		return File{}, err
	}
	defer r.Close()
	h := sha256.New()
	n, err := io.Copy(h, &contextReader{ctx, r})
	return File{m.Name, n, hex.EncodeToString(h.Sum(nil))}, err
}

func (m *Member) write(ctx context.Context, out *tar.Writer, manifest *Manifest, f File) error {
	r, err := m.open()
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	if err := manifest.writeMember(ctx, out, f.Name, f.Bytes, io.TeeReader(io.LimitReader(r, f.Bytes), h)); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s changed while it was read: does another program write it? Repeat this", m.Path)
	}
	return nil
}

func (m *Manifest) writeMember(ctx context.Context, out *tar.Writer, name string, size int64, r io.Reader) error {
	err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: m.Made.Truncate(1e9)})
	if err == nil {
		_, err = io.Copy(out, &contextReader{ctx, r})
	}
	return err
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// ListNames returns the names of the members, for a person.
func (m *Manifest) ListNames() string {
	names := make([]string, len(m.Files))
	for i, f := range m.Files {
		names[i] = f.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
