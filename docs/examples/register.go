// Registers a notification, in Go 1.19 or newer without modules.
//
// RINGBACK_API_KEY=rbk_... go run register.go https://shop.example/notify order-1001 8.88
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

var client = http.Client{Timeout: 10 * time.Second}

// register gives the HTTP status (0: no answer came), and the notification or the problem.
func register(server string, notification []byte) (int, string) {
	call, err := http.NewRequest("POST", server+"/v1/notifications", bytes.NewReader(notification))
	if err != nil {
		return 0, err.Error()
	}
	call.Header.Set("Content-Type", "application/json")
	if key := os.Getenv("RINGBACK_API_KEY"); key != "" {
		call.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := client.Do(call)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

func main() {
	server, url, order, amount := os.Getenv("RINGBACK_SERVER"), os.Args[1], os.Args[2], os.Args[3]
	if server == "" {
		server = "http://127.0.0.1:8400"
	}
	body := map[string]string{"order": order, "amount": amount}
	fields := map[string]any{"topic": "payment.succeeded", "id": order, "url": url, "body": body}
	notification, _ := json.Marshal(fields)
	status, answer := 0, ""
	// Sent again until it is certain: the same registration is never delivered twice.
	for try := 0; try < 5; try++ {
		status, answer = register(server, notification)
		if status == 200 || status == 201 { // It is kept, and will be delivered.
			fmt.Printf("registered %s: %d\n", order, status)
			return
		}
		if status != 0 && status != 429 && status != 503 {
			break
		}
		time.Sleep(time.Second) // It may have been kept or not.
	}
	fmt.Fprintln(os.Stderr, "not registered:", status, answer)
	os.Exit(1)
}
