// Receives notifications, in Go 1.19 or newer without modules.
//
// PORT=9400 STORE=received WEBHOOK_SECRET=whsec_... go run receiver.go
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var directory = setting("STORE", "received")

// Two, separated by a space, while the secret is being changed. White space at the ends does not count.
var secrets = regexp.MustCompile(`\s+`).Split(strings.Trim(setting("WEBHOOK_SECRET", ""), " \t\n\v\f\r"), -1)

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// verify says whether these bytes were signed with this secret, no more than 300 s away from now.
func verify(id, timestamp, signatures, secret string, body []byte, now int64) (bool, error) {
	seconds, err := strconv.ParseUint(timestamp, 10, 32)
	if age := now - int64(seconds); err != nil || age > 300 || age < -300 {
		return false, nil
	}
	// At least 24 bytes in base64, and nothing else: a public key (whpk_...) is known to others.
	shape := regexp.MustCompile("^whsec_([A-Za-z0-9+/]{4}){8,}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$")
	if !shape.MatchString(secret) {
		return false, errors.New("not a signing secret")
	}
	key, err := base64.StdEncoding.DecodeString(secret[6:])
	if err != nil {
		return false, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	// Several while a secret is being changed; one has to match.
	for _, given := range strings.Split(signatures, " ") {
		if hmac.Equal([]byte(given), []byte(expected)) {
			return true, nil
		}
	}
	return false, nil
}

// must ends the program at its start; in a request, it ends that request with status 500.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// store keeps the body in a file named for the id, on disk at the end; false if it was there already.
func store(id string, body []byte) bool {
	draft, folder := must(os.CreateTemp(directory, ".draft")), must(os.Open(directory))
	defer func() { os.Remove(draft.Name()); draft.Close(); folder.Close() }()
	must(draft.Write(body))
	must(0, draft.Sync())
	err := os.Link(draft.Name(), directory+"/"+id)
	if !errors.Is(err, os.ErrExist) {
		must(0, err)
	}
	must(0, folder.Sync())
	return err == nil
}

func receive(response http.ResponseWriter, request *http.Request) {
	defer func() {
		if failed := recover(); failed != nil {
			log.Println(failed)
			http.Error(response, "error", http.StatusInternalServerError)
		}
	}()
	// The raw bytes, before anything parses them.
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, 1<<20))
	if err != nil {
		http.Error(response, "too large, or incomplete", http.StatusRequestEntityTooLarge)
		return
	}
	header, now, signed := request.Header.Get, time.Now().Unix(), false
	id := header("Webhook-Id")
	for _, secret := range secrets {
		signed = must(verify(id, header("Webhook-Timestamp"), header("Webhook-Signature"), secret, body, now)) || signed
	}
	// The id becomes a file name, so it may have no other characters.
	if !signed || !regexp.MustCompile("^[A-Za-z0-9_-]{1,64}$").MatchString(id) {
		http.Error(response, "bad signature", http.StatusUnauthorized)
		return
	}
	if store(id, body) {
		fmt.Println("stored", id)
	} else {
		fmt.Println("repeated", id)
	}
	io.WriteString(response, "success") // the work is done later, from what is stored
}

func main() {
	for _, secret := range secrets {
		must(verify("", "0", "", secret, nil, 0)) // ends the program if it is no secret
	}
	must(0, os.MkdirAll(directory, 0o700))
	listener := must(net.Listen("tcp", "127.0.0.1:"+setting("PORT", "9400")))
	fmt.Println("listening on", listener.Addr())
	server := http.Server{Handler: http.HandlerFunc(receive), ReadTimeout: 10 * time.Second}
	must(0, server.Serve(listener))
}
