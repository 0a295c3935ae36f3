package client

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"time"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// filePiece is how much of a file is read at a time.
const filePiece = 128 << 10

// maxFileSendLine bounds a FileSendLine, in bytes: one with an error is the longest.
const maxFileSendLine = 64 << 10

// errFileChanged is the error of a file that is no longer what it was when it was looked at.
var errFileChanged = kinds.Errorf(kinds.Invalid, "the file became shorter while it was sent: send it again")

// SendFile sends a file to a peer, and blocks until the peer's daemon has all of it. The first p.Size bytes of file
// are the file. If p.SHA256 is "", SendFile reads them once more, to compute it. It calls progress, which may be nil,
// with each line of the daemon, one at a time.
//
// To continue after an error, call it again with the same id, which must be in p from the beginning.
func (c *Client) SendFile(ctx context.Context, p FileSendParams, file io.ReaderAt, progress func(FileSendLine)) (FileSent, error) {
	buffer := make([]byte, filePiece)
	if p.SHA256 == "" {
		sum := sha256.New()
		size := int64(min(p.Size, math.MaxInt64))
		if n, err := io.CopyBuffer(sum, readerUntil{ctx, io.NewSectionReader(file, 0, size)}, buffer); err != nil {
			return FileSent{}, explainFileError(ctx, err)
		} else if n < size {
			return FileSent{}, errFileChanged
		}
		p.SHA256 = hex.EncodeToString(sum.Sum(nil))
	}
	conn, err := callFromHandler(ctx, &p.Head, func() (net.Conn, error) { return c.openFor(ctx, c.findSpeaker(), MethodFileSend, &p, nil) })
	if err != nil {
		return FileSent{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	unwanted := false // the daemon has ended the transfer, and says why in a line that follows
	for lines := bufio.NewReaderSize(conn, maxFileSendLine); ; {
		var line FileSendLine
		text, err := lines.ReadSlice('\n')
		if err == nil {
			err = jsonrpc.ReadValue(text, &line, false)
		}
		switch {
		case err == nil && line.Done != nil:
			return *line.Done, nil
		case err == nil && line.Error != nil:
			return FileSent{}, line.Error
		case err == nil && line.Range != nil && !unwanted:
			err = answerRange(conn, file, p.Size, line.Range, buffer)
			if _, unwanted = errors.AsType[*net.OpError](err); unwanted && ctx.Err() == nil {
				err = nil
			}
		}
		if err != nil {
			return FileSent{}, explainFileError(ctx, err)
		}
		if progress != nil {
			progress(line)
		}
	}
}

// answerRange writes a range of a file of that size to the daemon.
func answerRange(conn net.Conn, file io.ReaderAt, size uint64, asked *[2]uint64, buffer []byte) error {
	offset, length := asked[0], asked[1]
	if offset > size || length > size-offset {
		return ownwords.New("the daemon asks for bytes that the file does not have: update acpd and this program")
	}
	n, err := io.CopyBuffer(conn, io.NewSectionReader(file, int64(offset), int64(length)), buffer)
	if err == nil && uint64(n) < length {
		return errFileChanged
	}
	return err
}

// TakeFile gets a file that has come. It calls open, which returns where the file is to be written, and blocks until
// all of it is. After an error, what was written is not the file: the caller removes it.
func (c *Client) TakeFile(ctx context.Context, p FileTakeParams, open func(*File) (io.Writer, error)) (*File, error) {
	f := new(File)
	conn, err := c.openFor(ctx, c.findSpeaker(), MethodFileTake, &p, f)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	to, err := open(f)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	_, err = io.CopyN(io.MultiWriter(to, sum), conn, int64(min(f.Size, math.MaxInt64)))
	switch {
	case err != nil:
		return nil, explainFileError(ctx, err)
	case hex.EncodeToString(sum.Sum(nil)) != f.SHA256:
		return nil, kinds.Errorf(kinds.Internal, "the daemon's copy of the file is damaged: remove it, and have its sender send it again")
	}
	return f, nil
}

// SaveFile gets a file that has come, and writes it to a path where there is nothing yet. Only this user can read it.
func (c *Client) SaveFile(ctx context.Context, p FileTakeParams, path string) error {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = c.TakeFile(ctx, p, func(*File) (io.Writer, error) { return to, nil })
	if err = cmp.Or(err, to.Close()); err != nil {
		os.Remove(path) // it is not the file
	}
	return err
}

// findSpeaker returns the agent as which this client makes its calls, or zero.
func (c *Client) findSpeaker() SpeakParams {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent != nil && c.agent.key != "" {
		return SpeakParams{Name: c.agent.params.Name, Key: c.agent.key}
	}
	return c.SpeakAs
}

// explainFileError returns the error of a connection that carries a file, or of the file itself.
func explainFileError(ctx context.Context, err error) error {
	_, ofConn := errors.AsType[*net.OpError](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ofConn, err == io.EOF, err == io.ErrUnexpectedEOF:
		return kinds.Errorf(kinds.DaemonUnavailable, "the daemon went away before all of the file was through: try again")
	}
	return err
}

// readerUntil reads until a context ends.
type readerUntil struct {
	ctx context.Context
	io.Reader
}

func (r readerUntil) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// ListFiles returns all files that p selects, as many pages as there are behind p.After.
func (c *Client) ListFiles(ctx context.Context, p FilesParams) (all []File, err error) {
	for {
		page, err := c.FilesPage(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Files...)
		if p.After = page.Next; p.After == 0 {
			return all, nil
		}
	}
}

// FilesPage returns the first page of the files that p selects behind p.After.
func (c *Client) FilesPage(ctx context.Context, p FilesParams) (*Files, error) {
	return callBounded[Files](ctx, c, MethodFiles, &p)
}

// RemoveFile removes a file that came, or what there is of one that comes, and returns what it was.
func (c *Client) RemoveFile(ctx context.Context, p FileRemoveParams) (*File, error) {
	return callBounded[File](ctx, c, MethodFileRemove, &p)
}

// AskAboutFiles takes back the answer "always" of the owner about files of a peer.
func (c *Client) AskAboutFiles(ctx context.Context, peer string) error {
	_, err := callBounded[struct{}](ctx, c, MethodFileAsk, &FileAskParams{Peer: peer})
	return err
}
