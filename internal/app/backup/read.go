package backup

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/internal/statedir"
)

// extract writes the members of an archive into the folder dir, which is empty, and returns its
// manifest. Every byte has then been checked against it. It reads no further than the last member.
// An error leaves what was written so far.
func extract(ctx context.Context, r io.Reader, dir string) (*Manifest, error) {
	in := tar.NewReader(bufio.NewReaderSize(&contextReader{ctx, r}, 256<<10))
	m, err := readManifest(in)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, f := range m.Files {
		if err := extractFile(in, root, f); err != nil {
			return nil, err
		}
	}
	switch _, err := in.Next(); {
	case err == nil:
		return nil, errors.New("there is more in it than its manifest lists: use another backup")
	case err != io.EOF:
		return nil, readError(err)
	}
	return m, m.checkStateVersion(dir)
}

// readManifest reads the first member.
func readManifest(in *tar.Reader) (*Manifest, error) {
	h, err := in.Next()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("it is no backup of acpctl, or all but its beginning is cut off: use another one")
	}
	if err != nil {
		return nil, readError(err)
	}
	if !isPlain(h) || h.Name != manifestName || h.Size > maxManifest {
		return nil, fmt.Errorf("it is no backup of acpctl: its first member is %.100q", h.Name)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, readError(err)
	}
	// The format first: members of a newer one may have another form.
	var version struct {
		Format int `json:"format"`
	}
	m := new(Manifest)
	if err = json.Unmarshal(text, &version); err == nil && version.Format == Format {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		return nil, fmt.Errorf("its manifest is damaged (%v): use another backup", err)
	}
	if m.Format = version.Format; m.Format != Format {
		return nil, m.check()
	}
	return m, m.check()
}

// isPlain reports whether a member is a file whose bytes are all in the archive. A sparse one, which no
// backup has, would be far larger on the disk than what was read.
func isPlain(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return false
		}
	}
	return h.Typeflag == tar.TypeReg
}

// extractFile writes the next member, which must be f, and is as f says. A profile is skipped.
func extractFile(in *tar.Reader, root *os.Root, f File) error {
	h, err := in.Next()
	if err == io.EOF {
		return fmt.Errorf("it ends before %s: use another backup", f.Name)
	}
	if err != nil {
		return readError(err)
	}
	if !isPlain(h) || h.Name != f.Name || h.Size != f.Bytes {
		return fmt.Errorf("where its manifest has %s of %d bytes, there is %.100q of %d: use another backup", f.Name, f.Bytes, h.Name, h.Size)
	}
	if isProfile(f.Name) {
		return nil
	}
	out, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, sum), in); err != nil {
		return readError(err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s is not what its manifest says: it is damaged; use another backup", f.Name)
	}
	return out.Sync()
}

// readError explains an error of reading an archive, and returns others as they are.
func readError(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is cut off: use another backup")
	case errors.Is(err, tar.ErrHeader):
		return errors.New("it is damaged, or no backup of acpctl: use another one")
	}
	return err
}

// checkStateVersion refuses a state.db that a newer acpd has written, whatever the manifest says.
func (m *Manifest) checkStateVersion(dir string) error {
	f, err := os.Open(filepath.Join(dir, statedir.StateName))
	if err != nil {
		return err
	}
	defer f.Close()
	version, err := statedir.ReadStateVersion(f)
	if err != nil {
		return fmt.Errorf("%w: use another backup", err)
	}
	if version > statedir.StateVersion {
		return newNewerError(m, version)
	}
	return nil
}
